"""A step that is tried: sound ones are left in peace, each mistake is named, nothing is changed."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.snapshot.state import State
from tests.step_checks import steps


def kinds(found):
    return [one.kind for one in found]


class Classifying:
    """A step of a classifier, with what it needs."""

    def __init__(self):
        self.model = steps.net()
        self.batch = steps.batch()

    def step(self, x, y):
        return F.cross_entropy(self.model(x), y)

    def check(self, step=None, **kwargs):
        return taiyi_fx.step_check(self.model, step or self.step, *self.batch, **kwargs)


@pytest.fixture
def of():
    return Classifying()


def test_nothing_is_found_in_a_sound_step(of):
    found = of.check(optimizer=torch.optim.Adam(of.model.parameters(), lr=0.01))
    assert found == []
    tried = (
        "finite numbers, repetition, gradient, order, samples, shapes, inputs, modes, precision, "
        "update, learning"
    )
    assert repr(found) == (
        f"no findings in one batch, tried for {tried}; not tried: future (the targets are not the "
        "next tokens of the input, nor its next values); padding (the model is given no mask and no lengths that leave "
        "something out)"
    )


def test_the_model_the_optimizer_and_random_numbers_are_as_before(of):
    optimizer = torch.optim.Adam(of.model.parameters(), lr=0.01)
    of.step(*of.batch).backward()
    optimizer.step()
    before, held = State(of.model), [*map(id, of.model.parameters())]
    known = {name: x.clone() for name, x in of.model.state_dict().items()}
    gradients = [p.grad.clone() for p in of.model.parameters()]
    moments = [state["exp_avg"].clone() for state in optimizer.state.values()]
    drawn = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    of.check(optimizer=optimizer)
    assert before.changes() == {}
    assert [*map(id, of.model.parameters())] == held
    assert all(torch.equal(x, known[name]) for name, x in of.model.state_dict().items())
    assert all(
        torch.equal(p.grad, g) for p, g in zip(of.model.parameters(), gradients, strict=True)
    )
    now = [state["exp_avg"] for state in optimizer.state.values()]
    assert all(map(torch.equal, now, moments))
    assert torch.equal(torch.get_rng_state(), drawn[0])
    assert random.getstate() == drawn[1]
    assert (np.random.get_state()[1] == drawn[2]).all()


def test_an_instrumented_model_records_nothing_of_it_and_goes_on(of):
    watched = taiyi_fx.instrument(of.model, {"Linear": ["OutputRMS"]})
    x, y = of.batch
    found = taiyi_fx.step_check(watched, lambda x, y: F.cross_entropy(watched(x), y), x, y)
    assert found == []
    assert not watched.monitor.is_paused
    F.cross_entropy(watched(x), y).backward()
    watched.monitor.track(0)
    assert [*watched.monitor.get_output()["0"]["OutputRMS"]] == [0]


def test_a_monitor_that_is_paused_stays_so(of):
    watched = taiyi_fx.instrument(of.model, {"Linear": ["OutputRMS"]})
    watched.monitor.pause()
    taiyi_fx.step_check(watched, of.step, *of.batch)
    assert watched.monitor.is_paused


def test_modes_are_as_before(of):
    of.model.eval()
    of.model[3].train()
    of.check()
    assert [m.training for m in of.model] == [False, False, False, True]


def test_a_model_may_return_its_loss_itself():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = steps.net()

        def forward(self, x, labels):
            logits = self.inner(x)
            return {"logits": logits, "loss": F.cross_entropy(logits, labels)}

    model = Model()
    x, y = steps.batch()
    assert taiyi_fx.step_check(model, model, x=x, labels=y) == []


def test_modules_that_the_step_names_are_known_too(of):
    teacher = steps.net()
    known = State(teacher)

    def step(x, y):
        with torch.no_grad():
            aim = teacher(x).softmax(-1)
        return F.cross_entropy(of.model(x), aim) + F.cross_entropy(of.model(x), y)

    found = of.check(step)
    assert found == []  # a teacher's own weights get no gradient, and need none
    assert "gradient" in found.looked_at
    assert known.changes() == {}
    assert {p.dtype for p in teacher.parameters()} == {torch.float32}
    assert teacher[2].num_batches_tracked == 0


def test_modules_of_functions_that_the_step_calls_are_known_too(of):
    critic = nn.Linear(6, 1)

    def value(x):
        return critic(x).detach()[:, 0]

    def step(x, y):
        losses = F.cross_entropy(of.model(x), y, reduction="none")
        return (losses * value(x)).mean()

    found = of.check(step)
    assert found == []
    assert "gradient" in found.looked_at
    assert critic.weight.dtype == torch.float32


def test_a_step_that_changes_each_time_is_told_and_tried_no_further(of):
    calls = []

    def step(x, y):
        calls.append(1)
        return F.cross_entropy(of.model(x), y) * len(calls)

    found = of.check(step)
    assert kinds(found) == ["unrepeatable_loss"]
    assert "repetition" in found.looked_at
    assert "gradient" not in found.looked_at


def test_a_check_whose_batch_the_step_does_not_take_is_said(of):
    seen = []

    def step(x, y):
        seen.append(y)
        if not torch.equal(y, seen[0]):
            raise RuntimeError("labels are in another order\nby much")
        return F.cross_entropy(of.model(x), y)

    found = of.check(step)
    assert found == []
    assert "order (RuntimeError: labels are in another order)" in found.remark


def test_a_step_that_has_a_type_of_its_own_is_tried_in_it(of):
    weights = torch.rand(6, 6)
    found = of.check(lambda x, y: F.cross_entropy(of.model(x @ weights), y))
    assert found == []
    assert "gradient (it does not run in float64)" in found.remark
    assert "order" in found.looked_at


def test_what_the_step_raises_is_raised(of):
    with pytest.raises(ZeroDivisionError):
        of.check(lambda x, y: 1 / 0)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda loss: None, "but gave None"),
        (lambda loss: loss.expand(3), "but gave a tensor of shape \\(3,\\)"),
        (lambda loss: (loss,), "but gave a tuple without a loss"),
        (lambda loss: loss.item(), "but gave a float without a loss"),
    ],
)
def test_a_step_without_a_loss_is_refused(of, returned, said):
    with pytest.raises(TypeError, match=said):
        of.check(lambda x, y: returned(of.step(x, y)))


def test_a_model_with_nothing_to_learn_is_refused(of):
    of.model.requires_grad_(requires_grad=False)
    with pytest.raises(ValueError, match="no parameter that is to be learned"):
        of.check()


def test_a_loss_without_any_graph_is_a_cut(of):
    found = of.check(lambda x, y: of.step(x, y).detach())
    assert kinds(found) == ["cut_gradient"]
    assert "'0.weight' and 5 more" in found[0].text
    assert "detach at test_check.py:" in found[0].text


def test_a_lazy_module_has_to_be_called_first():
    model = nn.Sequential(nn.LazyLinear(8), nn.Linear(8, steps.CLASSES))
    with pytest.raises(ValueError, match="call the model once before"):
        taiyi_fx.step_check(model, lambda x, y: F.cross_entropy(model(x), y), *steps.batch())


def test_a_backward_within_the_step_is_said_and_leaves_no_gradient(of):
    def step(x, y):
        loss = of.step(x, y)
        loss.backward()
        return loss

    found = of.check(step)
    assert found == []
    assert (
        "gradient (RuntimeError: Trying to backward through the graph a second time" in found.remark
    )
    assert all(p.grad is None for p in of.model.parameters())


def test_autocast_is_tried_without_its_rounding(of):
    def step(x, y):
        with torch.autocast("cpu", torch.bfloat16):
            return of.step(x, y)

    found = of.check(step)
    assert found == []
    assert "gradient" in found.looked_at
    assert "precision (a part of it is in half precision)" in found.remark


def test_a_compiled_model_is_tried(of):
    compiled = torch.compile(of.model, backend="eager")
    found = taiyi_fx.step_check(compiled, lambda x, y: F.cross_entropy(compiled(x), y), *of.batch)
    assert found == []
    assert {"gradient", "order", "samples"} <= {*found.looked_at.replace(",", "").split()}


@pytest.mark.parametrize("last", [1, 2, 5, 12, 25, 60])
def test_a_model_is_as_before_where_it_is_interrupted(of, last):
    """Also while the traceback, which holds all frames, is still there."""
    calls = []
    held = {name: (p, p.clone()) for name, p in of.model.named_parameters()}

    def step(x, y):
        calls.append(1)
        if len(calls) == last:
            raise KeyboardInterrupt
        return of.step(x, y)

    optimizer = torch.optim.Adam(of.model.parameters(), lr=0.01)
    drawn = torch.get_rng_state()
    with pytest.raises(KeyboardInterrupt) as interrupted:
        of.check(step, optimizer=optimizer)
    assert interrupted.tb is not None
    for name, parameter in of.model.named_parameters():
        assert parameter is held[name][0]
        assert torch.equal(parameter, held[name][1])
    assert torch.get_default_dtype() == torch.float32
    assert torch.equal(torch.get_rng_state(), drawn)


def test_several_optimizers_may_train_the_model(of):
    both = [
        torch.optim.Adam(part.parameters(), lr=0.01)
        for part in of.model.children()
        if [*part.parameters()]
    ]
    assert len(both) > 1
    found = of.check(optimizer=both)
    assert found == []
    assert found.looked_at.endswith("update, learning")


def test_what_is_no_optimizer_is_refused(of):
    with pytest.raises(TypeError, match="an optimizer has param_groups, and 0.1 has none"):
        of.check(optimizer=0.1)
