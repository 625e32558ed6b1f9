"""Averages of weights that move the wrong way round."""

import pytest

from taiyi_fx.findings.facts.source.averages import averages_without_buffers, turned_averages
from tests.findings.facts.source.reading import found_in

LOOP = """
DECAY, tau = 0, 0
DECAY = {decay}
with torch.no_grad():
    for p, q in zip(model.parameters(), {model}.parameters()):
        {step}
"""


@pytest.mark.parametrize(
    ("step", "is_found"),
    [
        ("q.lerp_(p, 0.999)", True),
        ("q.data.lerp_(p.data, 0.995)", True),
        ("q.lerp_(p, 0.001)", False),
        ("p.lerp_(q, 0.999)", False),
        ("q.mul_(0.01).add_(p, alpha=0.99)", True),
        ("q.mul_(0.01).add_(0.99 * p)", True),
        ("q.mul_(0.99).add_(p, alpha=0.01)", False),
        ("q.copy_(0.995 * p + 0.005 * q)", True),
        ("q.copy_(0.005 * p + 0.995 * q)", False),
        ("q.data.copy_(p.data)", False),
        ("q.data = 0.01 * q.data + 0.99 * p.data", True),
        ("q.data = 0.99 * q.data + 0.01 * p.data", False),
        ("q.lerp_(p, rate_of(step))", False),
        ("q.lerp_(p, 1.0)", False),
        ("q.lerp_(p, weight=0.999)", True),
        ("q.copy_(torch.lerp(q, p, 0.999))", True),
        ("q.copy_(q.lerp(p, 0.001))", False),
        ("q.copy_(torch.lerp(p, q, 0.999))", False),
        ("q.data = torch.lerp(q.data, p.data, weight=0.99)", True),
        ("q.mul_(0.01); q.add_(p, alpha=0.99)", True),
        ("q.mul_(0.99); q.add_(p, alpha=0.01)", False),
        ("q.mul_(0.01); p.add_(p, alpha=0.99)", False),
        ("p.mul_(0.01); q.add_(p, alpha=0.99)", False),
        ("q.data += 0.99 * (p.data - q.data)", True),
        ("q.data += 0.01 * (p.data - q.data)", False),
        ("q.data -= (1 - 0.01) * (q.data - p.data)", True),
        ("q.data -= 0.99 * p.grad", False),
        ("q.data = q.data - 0.99 * (q.data - p.data)", True),
        ("q.data = q.data - 0.01 * (q.data - p.data)", False),
        ("q.add_(p - q, alpha=0.99)", True),
        ("q.add_(q - p, alpha=0.99)", False),
        ("q.sub_(0.99 * (q - p))", True),
        ("q.copy_(q + 0.99 * (p - q))", True),
        ("q.copy_(q + 0.01 * (p - q))", False),
        ("torch._foreach_lerp_(ema_params, params, 0.99)", True),
        ("torch._foreach_lerp_(ema_params, params, 0.01)", False),
        ("torch._foreach_mul_(ema_ws, 0.1); torch._foreach_add_(ema_ws, ws, alpha=0.9)", True),
    ],
)
@pytest.mark.parametrize("model", ["ema", "self.target_net"])
def test_a_step_by_nearly_all_of_the_new_is_found(step, is_found, model):
    code = LOOP.format(decay=0.99, step=step, model=model)
    assert bool(found_in(code, turned_averages)) == is_found


def test_of_models_that_are_no_averages_nothing_is_known():
    code = LOOP.format(decay=0.99, step="q.lerp_(p, 0.999)", model="other")
    assert found_in(code, turned_averages) == []


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("decay = 0.99\nema_p.lerp_(p, decay)", True),
        ("decay: float = 0.99\nema_p.lerp_(p, decay)", True),
        ("ema_sd[k] = 0.005 * ema_sd[k] + 0.995 * v", True),
        ("ema_sd[k] = 0.995 * ema_sd[k] + 0.005 * v", False),
        ("decay = 0.99\nema_p.lerp_(p, 1 - decay)", False),
        ("def f(ema_p, p, tau=0.995):\n    ema_p.data.mul_(1 - tau).add_(tau * p.data)", True),
        ("def f(ema_p, p, tau=0.005):\n    ema_p.data.mul_(1 - tau).add_(tau * p.data)", False),
        ("decay = 0.99\ndecay = 0.01\nema_p.lerp_(p, decay)", False),
        ("p_target.data.copy_(0.99 * p.data + (1 - 0.99) * p_target.data)", True),
        ("for n, p in net.named_parameters():\n    shadow[n].lerp_(p.data, 0.99)", True),
        ("for n, p in net.named_parameters():\n    self.shadow[n].data.lerp_(p, 0.01)", False),
        (
            "ps = dict(net.named_parameters())\nfor n, q in ema.named_parameters():\n    q.lerp_(ps[n], 0.9)",
            True,
        ),
        (
            "for (n, q), (_, p) in zip(ema.named_parameters(), net.named_parameters()):\n"
            "    q.mul_(0.1).add_(p, alpha=0.9)",
            True,
        ),
        (
            "for (n, p), (_, q) in zip(net.named_parameters(), ema.named_parameters()):\n"
            "    p.mul_(0.1).add_(q, alpha=0.9)",
            False,
        ),
        ("avg = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.001))", True),
        ("d = 0.01\navg = AveragedModel(net, avg_fn=swa_utils.get_ema_avg_fn(decay=d))", True),
        ("avg = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.999))", False),
        ("avg = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn())", False),
    ],
)
def test_a_share_with_a_name_is_what_it_is_set_to(code, is_found):
    assert bool(found_in(code, turned_averages)) == is_found


WITHOUT = """
ema = copy.deepcopy(model){mode}
def update():
    for a, b in zip({of}.parameters(), model.parameters()):
        {step}
    {more}
"""


def pairs(mode=".eval()", of="ema", step="a.mul_(0.98).add_(b, alpha=0.02)", more="pass"):
    code = WITHOUT.format(mode=mode, of=of, step=step, more=more)
    return [line for line, _ in found_in(code, averages_without_buffers)]


def test_averages_of_parameters_alone_that_are_evaluated_are_found():
    assert pairs() == [4]
    assert pairs(step="a.data = 0.98 * a.data + 0.02 * b.data") == [4]
    assert pairs(mode="", more="ema.eval()") == [4]


@pytest.mark.parametrize(
    "changed",
    [
        {"mode": ""},
        {"of": "other"},
        {"step": "print(a)"},
        {"more": "copy_all(ema.buffers(), model.buffers())"},
        {"more": "torch.optim.swa_utils.update_bn(loader, ema)"},
        {"more": "ema.train()"},
    ],
    ids=["trains", "no average", "no step", "buffers", "statistics anew", "in training mode"],
)
def test_averages_with_buffers_and_of_training_are_none(changed):
    assert pairs(**changed) == []


def test_an_average_may_be_a_class():
    code = (
        "class ModelEMA:\n"
        "    def __init__(self, model):\n"
        "        self.module = copy.deepcopy(model).eval()\n"
        "    def update(self, model):\n"
        "        for a, b in zip(self.module.parameters(), model.parameters()):\n"
        "            a.lerp_(b, 0.02)\n"
    )
    assert [line for line, _ in found_in(code, averages_without_buffers)] == [5]
    for name in ("Copier", "SemanticModel"):
        assert found_in(code.replace("ModelEMA", name), averages_without_buffers) == []
