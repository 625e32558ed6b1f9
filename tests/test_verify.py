"""`verify`: what monitoring changes is named, what it does not is not, and all is put back."""

from __future__ import annotations

import copy
import itertools
import os
import random
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import output, output_grad, quantity
from taiyi_fx.passes.runtime.random_state import random_state
from taiyi_fx.testing import Chain, is_leaf
from taiyi_fx.testing.blocks import BLOCKS, D
from taiyi_fx.verification import side_by_side
from taiyi_fx.verification.state import State

NORMS = {is_leaf: ["InputSndNorm", "OutputRMS", "OutputGradSndNorm"]}


class Net(nn.Module):
    """Has all that can be changed: parameters, buffers, draws and attributes."""

    def __init__(self):
        super().__init__()
        self.fc, self.bn = nn.Linear(4, 6), nn.BatchNorm1d(6)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(6, 3)
        self.count, self.stats = 0, {"seen": [0], "last": torch.zeros(())}
        self.scale = torch.ones(3, requires_grad=True)

    def forward(self, x):
        self.count += 1
        self.stats["seen"].append(len(x))
        self.stats["last"] = x.detach().mean()
        return self.head(self.drop(self.bn(self.fc(x)).relu())) * self.scale


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def x():
    return torch.randn(8, 4)


@dataclass(frozen=True)
class Doing:
    """A reduction that does something else, besides."""

    what: str = "nothing"

    def measure(self, x):
        _DEEDS[self.what](x)
        return (x.detach().double().sum(),)

    def merge(self, a, b):
        return (a[0] + b[0],)

    def scale(self, state, factor):
        return (state[0] * factor,)

    def finish(self, state):
        return state[0]


_DEEDS = {
    "nothing": lambda x: None,
    "scales": lambda x: x.data.mul_(1 + 2**-10),
    "draws": lambda x: torch.rand(1),
    "draws in Python": lambda x: random.random(),
    "draws in NumPy": lambda x: np.random.rand(),
}


@quantity(found=output.reduce(Doing))
def of_output_doing(found):
    return found


@quantity(found=output_grad.reduce(Doing))
def of_gradient_doing(found):
    return found


def instrumenting(monkeypatch, then):
    """What `instrument` returns is given to a function before it is compared."""

    def made(*args, **kwargs):
        instrumented = taiyi_fx.instrument(*args, **kwargs)
        then(instrumented)
        return instrumented

    monkeypatch.setattr(side_by_side, "instrument", made)


def calling(monkeypatch, after):
    """What the instrumented model returns is what a function makes of that."""

    def then(instrumented):
        kind = type(instrumented)
        call = kind.__call__

        def called(self, *args, **kwargs):
            return after(self, call(self, *args, **kwargs))

        monkeypatch.setattr(kind, "__call__", called)

    instrumenting(monkeypatch, then)


def everything(model):
    """All that a test looks at, to be compared with later."""
    grads = {n: p.grad if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
    tensors = {n: t.detach().clone() for n, t in model.state_dict().items()}
    flags = [m.training for m in model.modules()]
    identities = [id(t) for t in (*model.parameters(), *model.buffers())]
    return tensors, grads, flags, identities, random_state()


def assert_as_before(model, before):
    tensors, grads, flags, identities, state = before
    now_tensors, now_grads, now_flags, now_identities, now_state = everything(model)
    assert same_streams(state, now_state)
    assert (flags, identities) == (now_flags, now_identities)
    assert all(torch.equal(tensors[n], now_tensors[n]) for n in tensors)
    for name, grad in grads.items():
        assert (grad is None) == (now_grads[name] is None), name
        assert grad is None or torch.equal(grad, now_grads[name])


def same_streams(a, b):
    return (
        a["python"] == b["python"]
        and torch.equal(a["torch"], b["torch"])
        and all(map(np.array_equal, a["numpy"], b["numpy"]))
    )


def test_a_healthy_model_passes_and_all_is_told(net, x):
    cfg = {**NORMS, "fc": ["WeightNorm", "WeightGradNorm", "InputCovCondition", "InputAbsMax"]}
    found = taiyi_fx.verify(net, cfg, x)
    assert found.ok
    assert (found.first_difference, found.differences, found.unseen) == (None, (), ())
    assert found.calls == {"fc": (2, 2), "bn": (2, 2), "drop": (2, 2), "head": (2, 2)}
    assert found.not_compared == ("InputCovCondition",)
    assert found.readings == 2 * (4 * 3 + 3)
    assert found.worst_error is not None
    assert 0 < found.worst_error < 1e-5
    assert found.cost_due > 0
    assert found.cost_idle > 0
    assert found.compared["gradient"] == 6 + 1
    assert found.compared["buffer"] == 3
    assert found.compared["attribute"] > 3
    text = str(found)
    assert text.startswith("verdict  monitoring changed nothing, and saw every call\n")
    assert "seen 8 of 8, of 4 modules" in text
    assert "not compared with float64: InputCovCondition" in text
    assert "of a plain step where all is due" in text
    assert repr(found) == "<verification: monitoring changed nothing, and saw every call>"


@pytest.mark.parametrize("block", BLOCKS)
def test_any_block_passes(block):
    found = taiyi_fx.verify(Chain(block.__name__), NORMS, torch.randn(3, 4, D))
    assert found.ok, str(found)
    assert found.worst_error < 1e-5


def test_what_is_due_seldom_is_verified_all_the_same(net, x):
    cfg = {"fc": [["InputSndNorm", "linear(100, 50)"]]}
    assert taiyi_fx.verify(net, cfg, x).calls == {"fc": (2, 2)}


@pytest.mark.parametrize(
    ("entry", "first"),
    [
        ([of_output_doing, "every(1)", {"what": "scales"}], "output in the first step: by up to"),
        ([of_output_doing, "every(1)", {"what": "draws"}], "random state of torch after"),
        (
            [of_output_doing, "every(1)", {"what": "draws in Python"}],
            "random state of Python after the first step",
        ),
        (
            [of_output_doing, "every(1)", {"what": "draws in NumPy"}],
            "random state of NumPy after the first step",
        ),
    ],
)
def test_a_probe_that_does_something_is_caught(x, entry, first):
    found = taiyi_fx.verify(nn.Sequential(nn.Linear(4, 6)), {"0": [entry]}, x)
    assert not found.ok
    assert found.first_difference.startswith(first)
    assert f"monitoring made a difference: {first}" in str(found)


def test_a_gradient_that_is_changed_is_caught(monkeypatch, net, x):
    def after(instrumented, y):
        if y.requires_grad:
            y.register_hook(lambda g: g * 1.5)
        return y

    calling(monkeypatch, after)
    found = taiyi_fx.verify(net, NORMS, x)
    assert found.first_difference.startswith("gradient of 'fc.weight' in the first step: by up to")


def test_a_gradient_that_a_probe_changes_is_caught():
    entry = [of_gradient_doing, "every(1)", {"what": "scales"}]
    wide = nn.Sequential(nn.Linear(600, 600), nn.Linear(600, 2))
    found = taiyi_fx.verify(wide, {"0": [entry]}, torch.randn(400, 600))
    assert found.first_difference.startswith("gradient of '0.")


def test_a_buffer_that_is_changed_in_the_second_step_is_caught(monkeypatch, net, x):
    calls = itertools.count()

    def after(instrumented, y):
        if next(calls) == 1:
            instrumented.bn.running_mean.data += 1e-3
        return y

    calling(monkeypatch, after)
    found = taiyi_fx.verify(net, NORMS, x)
    first = "buffer 'bn.running_mean' after the second step: by up to"
    assert found.first_difference.startswith(first)


def test_an_attribute_that_is_changed_is_caught(monkeypatch, net, x):
    def after(instrumented, y):
        instrumented.stats["seen"].append(1)
        return y

    calling(monkeypatch, after)
    found = taiyi_fx.verify(net, NORMS, x)
    first = "attribute 'stats' of the model['seen'][2] after the first step"
    assert found.first_difference.startswith(first)


def test_a_step_where_nothing_is_due_is_compared_too(monkeypatch, net, x):
    def after(instrumented, y):
        return y + 1e-3 if instrumented.monitor.next_step % 2 and instrumented.training else y

    calling(monkeypatch, after)
    found = taiyi_fx.verify(net, {"fc": ["InputSndNorm"]}, x)
    first = "output in the first step where nothing is due: by up to"
    assert found.first_difference.startswith(first)


def test_what_instrumenting_changes_is_caught(monkeypatch, net, x):
    instrumenting(monkeypatch, lambda instrumented: torch.rand(1))
    found = taiyi_fx.verify(net, NORMS, x)
    assert found.first_difference == "random state of torch after instrument: other values"
    instrumenting(monkeypatch, lambda instrumented: setattr(net, "count", 7))
    found = taiyi_fx.verify(net, NORMS, x)
    assert found.first_difference == "attribute 'count' of the model after instrument: is new"
    assert net.count == 0


def test_an_error_of_the_instrumented_model_alone_is_a_difference(monkeypatch, net, x):
    def after(instrumented, y):
        raise RuntimeError("not here")

    calling(monkeypatch, after)
    before = everything(net)
    found = taiyi_fx.verify(net, NORMS, x)
    first = "the model in the first step: raised RuntimeError: not here"
    assert found.first_difference == first
    assert found.cost_due is None
    assert "cost" not in str(found)
    assert_as_before(net, before)


def test_a_missed_call_is_named(monkeypatch, net, x):
    def without_head(cfg, schedule):
        return side_by_side_rescheduled({k: v for k, v in cfg.items() if k != "head"}, schedule)

    side_by_side_rescheduled = side_by_side.rescheduled
    monkeypatch.setattr(side_by_side, "rescheduled", without_head)
    cfg = {"fc": ["InputSndNorm"], "head": ["OutputRMS", "WeightNorm"]}
    found = taiyi_fx.verify(net, cfg, x)
    assert not found.ok
    assert found.differences == ()
    assert found.calls == {"fc": (2, 2), "head": (0, 2)}
    first = "OutputRMS of 'head' (nothing is said of it) in the first step"
    assert found.first_difference == first
    assert "seen 2 of 4, of 2 modules" in str(found)


def test_a_reading_that_cannot_be_had_is_named_with_its_reason():
    class Token(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return self.token

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Token()

        def forward(self, x):
            return self.part(x) * x

    found = taiyi_fx.verify(Model(), {"part": ["OutputGradRMS"]}, torch.randn(2, 3))
    assert found.differences == ()
    assert "(the tensor there is a parameter itself" in found.first_difference


def test_a_model_that_is_not_itself_twice_is_told_to_be_so(x):
    class Entropy(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            noise = np.frombuffer(os.urandom(32), dtype=np.uint8).sum()
            return self.first(x), self.last(x) + float(noise)

    found = taiyi_fx.verify(Entropy(), NORMS, x)
    assert not found.ok
    assert found.differences == ()
    assert found.first_difference.startswith(
        "the plain model differs from itself in output[1] in the first step"
    )
    assert "it cannot be judged, as the plain model differs from itself" in str(found)
    assert "use_deterministic_algorithms" in str(found)
    assert found.worst_error is None


def test_what_comes_before_the_unstable_is_judged(monkeypatch, x):
    class Entropy(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            self.noise = os.urandom(8)
            return self.fc(x)

    calling(monkeypatch, lambda instrumented, y: y + 1)
    found = taiyi_fx.verify(Entropy(), NORMS, x)
    assert found.first_difference.startswith("output in the first step")
    assert found.unstable[0].startswith("attribute 'noise' of the model after the first step")


def marked(model):
    """The model with gradients, mixed flags and a stream of random numbers under way."""
    model(torch.randn(8, 4)).sum().backward()
    model.head.weight.grad = None
    model.bn.eval()
    random.random(), np.random.rand()
    return model


def test_all_is_put_back_bit_for_bit(net, x):
    net = marked(net)
    before, version = everything(net), net.fc.weight._version
    grads = [p.grad for p in net.parameters()]
    held = net.stats, net.stats["seen"], list(net.stats["seen"]), net.stats["last"], net.scale.grad
    assert taiyi_fx.verify(net, NORMS, x).ok
    assert_as_before(net, before)
    assert all(p.grad is g for p, g in zip(net.parameters(), grads, strict=True))
    assert net.fc.weight._version == version, "what has not changed is not written to"
    assert net.stats is held[0]
    assert net.stats["seen"] is held[1]
    assert net.stats["seen"] == held[2]
    assert net.stats["last"] is held[3]
    assert net.scale.grad is held[4]
    assert net.count == 1
    assert not hasattr(net, "monitor")
    assert all("forward" not in vars(module) for module in net.modules())
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in net.modules())


@pytest.mark.parametrize("fails_at", [0, 1, 4, 9])
def test_all_is_put_back_after_an_error_too(net, x, fails_at):
    net = marked(net)
    calls = itertools.count()

    def hook(module, args, y):
        if next(calls) == fails_at:
            raise KeyboardInterrupt

    net.drop.register_forward_hook(hook)
    before, count = everything(net), net.count
    with pytest.raises(KeyboardInterrupt):
        taiyi_fx.verify(net, NORMS, x)
    assert_as_before(net, before)
    assert net.count == count
    assert all("forward" not in vars(module) for module in net.modules())


def test_a_model_in_evaluation_is_trained_and_put_back(net, x):
    net.eval()
    before = everything(net)
    assert taiyi_fx.verify(net, NORMS, x).calls["fc"] == (2, 2)
    assert_as_before(net, before)


def test_an_error_of_the_plain_model_is_the_users(net):
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        taiyi_fx.verify(net, NORMS, torch.randn(8, 5))


def test_state_puts_back_whatever_python_holds():
    class Slots:
        __slots__ = ("n",)

    slots, counter, fc = Slots(), SimpleNamespace(n=0, parts=[{"a": {1}}]), nn.Linear(2, 2)
    slots.n = 0

    def closing(m=counter):
        nonlocal slots
        return m, slots

    fc.held, fc.function, fc.array = counter, closing, np.zeros(3)
    fc.random, fc.numpy, fc.torch = random.Random(0), np.random.default_rng(0), torch.Generator()
    fc.outside = [nn.Linear(2, 2)]
    first = fc.random.random(), fc.numpy.random(), torch.rand(1, generator=fc.torch)
    fc.random.seed(0)
    fc.numpy, fc.torch = np.random.default_rng(0), torch.Generator()
    state = State(fc)
    counter.n, counter.parts[0]["a"], fc.array[1], slots.n = 1, {2}, 1, 1
    fc.random.random(), fc.numpy.random(), torch.rand(1, generator=fc.torch)
    fc.new, fc.weight.data[0] = 1, 0
    fc.outside[0].weight.data.zero_()
    del fc.in_features
    paths = state.changes()
    for path in ("attribute 'held' of the model.n", "attribute 'held' of the model.parts[0]['a']",
                 "attribute 'array' of the model", "attribute 'random' of the model",
                 "attribute 'numpy' of the model", "attribute 'torch' of the model",
                 "attribute 'new' of the model", "attribute 'in_features' of the model"):  # fmt: skip
        assert path in paths, path
    state.restore()
    assert state.changes() == {}
    assert (counter.n, counter.parts, list(fc.array), slots.n) == (0, [{"a": {1}}], [0, 0, 0], 0)
    assert first == (fc.random.random(), fc.numpy.random(), torch.rand(1, generator=fc.torch))
    assert fc.weight[0].abs().sum() > 0
    assert fc.outside[0].weight.abs().sum() > 0
    assert fc.in_features == 2
    assert not hasattr(fc, "new")


def test_hooks_that_keep_what_they_see_keep_nothing_of_it(net, x):
    seen = []
    net.fc.register_forward_hook(lambda module, args, y: seen.append(y))
    assert taiyi_fx.verify(net, NORMS, x).ok
    assert seen == []


def test_an_optimizer_that_steps_in_backward_is_put_back(net, x):
    optimizer = torch.optim.Adam([net.fc.weight])

    def step(parameter):
        optimizer.step()

    net.fc.weight.register_post_accumulate_grad_hook(step)
    before = everything(net)
    assert taiyi_fx.verify(net, NORMS, x).ok
    assert_as_before(net, before)
    assert len(optimizer.state) == 0


def test_a_shared_module_is_counted_at_each_call():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.again = self.fc

        def forward(self, x):
            return self.again(self.fc(x).relu())

    found = taiyi_fx.verify(Twice(), {"Linear": ["InputSndNorm", "OutputGradSndNorm"]},
                            torch.randn(3, 4), steps=3)  # fmt: skip
    assert found.ok
    assert found.calls == {"fc": (6, 6)}
    assert found.readings == 12


def test_a_batch_by_keywords_and_outputs_of_any_structure():
    class Keywords(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, *, model, cfg, scale=1.0, rest=()):
            y = self.fc(model) * scale
            return {"y": y, "parts": (y.sum(), [y * 2]), "name": "text", "rest": rest}

    x = torch.randn(3, 4, requires_grad=True)
    found = taiyi_fx.verify(Keywords(), NORMS, model=x, cfg=None, scale=2.0, rest=[1])
    assert found.ok
    assert found.compared["output"] == 5
    assert found.compared["gradient"] == 3, "of both parameters and of the input"
    assert x.grad is None


def test_an_input_that_is_made_of_others_and_changed_in_place():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(x.mul_(2))

    leaf = torch.randn(3, 4, requires_grad=True)
    x = leaf * 1
    before = x.detach().clone()
    with pytest.raises(RuntimeError, match="leaf Variable"):
        taiyi_fx.verify(InPlace(), NORMS, leaf)
    assert taiyi_fx.verify(InPlace(), NORMS, x).ok
    assert torch.equal(x, before)


def test_a_loss_of_the_models_own_is_taken():
    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(4, 2), nn.Linear(4, 2)

        def forward(self, x):
            return SimpleNamespace(loss=self.used(x).square().mean(), logits=self.unused(x))

    cfg = {"Linear": ["OutputGradSndNorm"]}
    found = taiyi_fx.verify(WithLoss(), cfg, torch.randn(3, 4))
    assert found.ok
    assert found.calls == {"used": (2, 2), "unused": (0, 0)}
    whole = taiyi_fx.verify(
        WithLoss(), cfg, torch.randn(3, 4), loss=lambda out: out.loss + out.logits.sum()
    )
    assert whole.calls == {"used": (2, 2), "unused": (2, 2)}


def test_masked_outputs_and_half_precision_have_a_loss():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            y = self.fc(x)
            return y.masked_fill(y > 1, -torch.inf)

    found = taiyi_fx.verify(Masked().bfloat16(), NORMS, torch.randn(50, 4).bfloat16())
    assert found.ok
    assert found.worst_error < 1e-5


def test_a_model_without_a_gradient_is_compared_as_far_as_it_goes(x):
    model = nn.Sequential(nn.Linear(4, 2)).requires_grad_(False)
    found = taiyi_fx.verify(model, {"0": ["InputSndNorm", "OutputGradSndNorm"]}, x)
    assert found.ok
    assert found.calls == {"0": (2, 2)}


def test_functions_are_said_not_to_be_compared():
    class Adding(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return torch.relu(self.fc(x))

    found = taiyi_fx.verify(Adding(), {"torch.relu": ["OutputRMS"]}, torch.randn(3, 4))
    assert found.ok
    assert found.not_compared == ("OutputRMS of functions",)
    assert "none to be seen: nothing is read at calls of modules" in str(found)


def test_what_is_asked_wrongly_is_told(net, x):
    with pytest.raises(TypeError, match=r"verify takes a torch\.nn\.Module, not a int"):
        taiyi_fx.verify(3, NORMS, x)
    with pytest.raises(TypeError, match="instrumented already"):
        taiyi_fx.verify(taiyi_fx.instrument(net, NORMS), NORMS, x)
    with pytest.raises(taiyi_fx.ConfigError, match="no quantity is named 'OutputRSM'"):
        taiyi_fx.verify(net, {"fc": ["OutputRSM"]}, x)
    with pytest.raises(TypeError, match="loss has to go by position"):
        taiyi_fx.verify(net, NORMS, x, loss=x)
    with pytest.raises(TypeError, match=r"returns a scalar, not 'a tensor of shape \(8, 3\)'"):
        taiyi_fx.verify(net, NORMS, x, loss=lambda y: y)
    with pytest.raises(ValueError, match="steps is a whole number of at least 1, not 0"):
        taiyi_fx.verify(net, NORMS, x, steps=0)
    with pytest.raises(ValueError, match="the configuration edits the model"):
        taiyi_fx.verify(net, {"fc": [taiyi_fx.edit(value=torch.abs)]}, x)
    with pytest.raises(TypeError, match="copying it raised"):
        taiyi_fx.verify(net, NORMS, x, more=(i for i in range(3)))
    with pytest.raises(ValueError, match=r"'weight' has no shape yet: run the model once before"):
        taiyi_fx.verify(nn.LazyLinear(3), NORMS, x)
    with pytest.raises(ValueError, match="is on the meta device"):
        taiyi_fx.verify(copy.deepcopy(net).to("meta"), NORMS, x)


def test_a_verification_is_frozen(net, x):
    found = taiyi_fx.verify(net, NORMS, x, steps=1)
    with pytest.raises(AttributeError):
        found.steps = 3
    assert isinstance(found, taiyi_fx.Verification)
