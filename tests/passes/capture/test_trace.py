"""What becomes a graph, what stays Python and why, and that tracing leaves no trace."""

import gc
import random
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx
from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.guards import Guard
from taiyi_fx.passes.capture.marks import enter, leave
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.testing.blocks import BLOCKS, Branch, Chain, Encoder, WithoutGradient
from tests.hard_models.layers import Nest

LIMIT = 3
WEIGHTS = torch.ones(4)
COUNTS = {"calls": 0}
make_ones = torch.ones
settings = ModuleType("settings")
settings.factor = 2.0


def traced(model, names):
    return trace(model, TraceTargets(names))


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.scale, self.seen = nn.Linear(4, 4), 2.0, []
        self.options, self.root = {"flag": True}, np.sqrt(2.0)
        self.parts = nn.ModuleList([self.fc])


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g


def made(forward):
    return type("Made", (Base,), {"forward": forward})()


def uses_with(self, x):
    with torch.no_grad():
        return self.fc(x)


def uses_autocast(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return self.fc(x)


@torch.no_grad()
def is_decorated(self, x):
    return self.fc(x)


def changes_an_attribute(self, x):
    self.last = self.fc(x)
    return self.last


def counts_itself(self, x):
    self.scale += 1
    return self.fc(x)


def appends(self, x):
    self.seen.append(1)
    return self.fc(x)


def draws_in_python(self, x):
    return self.fc(x) if random.random() > -1 else x


def draws_with_numpy(self, x):
    return self.fc(x) * np.random.rand()


def draws_with_torch(self, x):
    return self.fc(x) + torch.randn(4)


def branches_on_data(self, x):
    return self.fc(x) if x.sum() > 0 else x


def branches_on_shape(self, x):
    return self.fc(x) if x.shape[0] > 2 else x


def asks_for_a_type(self, x):
    return self.fc(x) if isinstance(x, torch.Tensor) else x


def asks_for_none(self, x, mask=None):
    return self.fc(x) if mask is None else self.fc(x) * mask


def asks_for_an_attribute(self, x):
    return self.fc(x).relu() if hasattr(x, "foo") else self.fc(x)


def prints(self, x):
    print("hello")
    return self.fc(x)


def reads_the_clock(self, x):
    return self.fc(x) * (time.time() > 0)


def reads_a_configuration(self, x):
    return self.fc(x) if self.options["flag"] else x


def tries(self, x):
    try:
        return self.fc(x)
    except ValueError:
        return x


def asks_for_grad_mode(self, x):
    return self.fc(x) if torch.is_grad_enabled() else x


def asks_for_compiling(self, x):
    return self.fc(x) if not torch.compiler.is_compiling() else x


def applies_a_function(self, x):
    return Square.apply(self.fc(x))


def checkpoints(self, x):
    return checkpoint(self.fc, x, use_reentrant=False)


def calls_forward(self, x):
    return self.fc.forward(x)


def changes_a_global(self, x):
    global COUNTS
    COUNTS = {"calls": 1}
    return self.fc(x)


def reads_a_global(self, x):
    return self.fc(x) * COUNTS["calls"]


def reads_a_setting(self, x):
    return self.fc(x) * settings.factor


def makes_a_constant(self, x):
    return self.fc(x) + torch.ones(4)


def makes_a_constant_before_it_names_what_it_reads(self, x):
    mask = torch.ones(4, 4).tril() == 0
    y = self.fc(x)
    y = y.masked_fill(mask[0], 0)
    return y + x


def makes_ones_by_another_name(self, x):
    n = x.shape[-1]
    return self.fc(x) * make_ones(n, n)


def assigns_to_a_part(self, x):
    y = self.fc(x)
    y[0] = 0
    return y


def makes_a_tensor_by_its_class(self, x):
    return self.fc(x) + torch.Tensor(x.shape[1])


def iterates(self, x):
    return sum(self.fc(row) for row in x)


def keys_by_value(self, x):
    return self.fc(x) if x.ndim in {2, 3} else x


def formats_a_value(self, x):
    return self.fc(x) if "cpu" in str(x.device) else x


def asks_torch_for_a_type(self, x):
    return self.fc(x) if torch.is_tensor(x) else x


def compares_with_an_attribute(self, x):
    return self.fc(x) if x is self.scale else x


def reads_a_parts_attribute(self, x):
    return self.fc(x) * self.fc.in_features


def reads_an_indexed_parts_attribute(self, x):
    return self.fc(x) * self.parts[0].in_features


def reads_through_a_comprehension(self, x):
    return self.fc(x) * sum([part.in_features for part in self.parts])


def puts_a_part_into_eval(self, x):
    self.fc.eval()
    x = self.fc(x)
    self.fc.train()
    return x


def asks_parameters(self, x):
    return self.fc(x) if next(self.parameters()).requires_grad else x


def reads_its_dictionary(self, x):
    return self.fc(x) * self.__dict__["scale"]


def uses_a_numpy_number(self, x):
    return self.fc(x) * self.root


STAY = {
    keys_by_value: "uses `{2, 3}`",
    formats_a_value: "computes `str` of what flows in",
    asks_torch_for_a_type: "tests the type of a value",
    compares_with_an_attribute: "tests the identity of a value, `x is self.scale`",
    puts_a_part_into_eval: "calls a method that changes or reads the module's state, `eval`",
    asks_parameters: "reads the module's state, `parameters`",
    reads_its_dictionary: "reads `self.__dict__`",
    uses_a_numpy_number: "reads `self.root`, a numpy.float64",
    uses_with: "uses `with torch.no_grad()`",
    uses_autocast: "uses `with torch.autocast",
    is_decorated: "is wrapped by `",
    changes_an_attribute: "changes `self.last`",
    counts_itself: "changes `self.scale`",
    appends: "calls `append` of a list",
    draws_in_python: "calls `random` of a Random",
    draws_with_numpy: "random",
    draws_with_torch: "calls torch's randn without a value that flows in",
    branches_on_data: "branches on a tensor's data or shape (test_trace.py:",
    branches_on_shape: "branches on a tensor's data or shape (test_trace.py:",
    asks_for_a_type: "tests the type of a value",
    asks_for_none: "tests the identity of a value, `mask is None`",
    asks_for_an_attribute: "uses `hasattr` on what is not a module",
    prints: "calls `print`",
    reads_the_clock: "calls `time.time`",
    tries: "uses `try`",
    asks_for_grad_mode: "calls torch's is_grad_enabled without a value that flows in",
    applies_a_function: "reads `Square.apply`",
    checkpoints: "uses `hasattr` on what is not a module",
    calls_forward: "calls `self.fc.forward` directly",
    changes_a_global: "uses `global COUNTS`",
    makes_a_tensor_by_its_class: "calls torch's Tensor without a value that flows in (",
    iterates: "iterates over a tensor",
}


@pytest.mark.parametrize("forward", STAY, ids=lambda f: f.__name__)
def test_a_forward_that_no_graph_can_stand_in_for_stays_python_and_says_why(forward, capsys):
    capture = traced(made(forward), ["fc"])
    assert not capture.graphs
    assert list(capture.python) == [""]
    assert STAY[forward] in capture.python[""], capture.python[""]


@pytest.mark.parametrize(
    "forward", [f for f in STAY if f is not asks_for_none], ids=lambda f: f.__name__
)
def test_a_child_that_stays_python_keeps_its_parent_python_but_not_its_siblings(forward, capsys):
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4)), made(forward))
    capture = traced(model, ["1.fc"])
    assert list(capture.graphs) == ["0"]
    assert list(capture.python) == ["", "1"]
    assert STAY[forward] in capture.python["1"]


def test_a_child_that_asks_for_what_its_parent_leaves_out_is_plain():
    capture = traced(nn.Sequential(nn.Linear(4, 4), made(asks_for_none)), ["1.fc"])
    assert capture.is_whole


def uses_a_constant(self, x):
    return self.fc(x) * LIMIT


def reads_plain_attributes(self, x):
    y = self.fc(x) * self.scale
    return F.dropout(y, 0.5, self.training)


def adds_in_place(self, x):
    y = self.fc(x)
    y += x
    y *= 2
    return y


def loops_over_children(self, x):
    for name, child in self.named_children():
        x = child(x) if name == "fc" else x
    return [x, (x, {"x": x})]


def takes_keywords(self, x, *, factor=2.0):
    return self.fc(input=x) * factor


GRAPHS = (
    uses_a_constant,
    reads_a_setting,
    reads_plain_attributes,
    adds_in_place,
    loops_over_children,
    takes_keywords,
    reads_a_parts_attribute,
    reads_an_indexed_parts_attribute,
    reads_through_a_comprehension,
    reads_a_configuration,
    reads_a_global,
    asks_for_compiling,
    makes_a_constant,
    makes_a_constant_before_it_names_what_it_reads,
    makes_ones_by_another_name,
    assigns_to_a_part,
)


@pytest.mark.parametrize("forward", GRAPHS, ids=lambda f: f.__name__)
def test_ordinary_forwards_become_one_graph(forward):
    capture = traced(made(forward), ["fc"])
    assert capture.graphs
    assert capture.python == {}
    assert str(capture) == "one graph"


@pytest.mark.parametrize("forward", GRAPHS, ids=lambda f: f.__name__)
def test_ordinary_forwards_give_what_they_give_in_python(forward):
    plain = made(forward)
    probed, x = taiyi_fx.instrument(plain, {"fc": ["OutputGradSndNorm"]}), torch.randn(4, 4)
    results = []
    for model in (plain, probed):
        torch.manual_seed(0)
        model.zero_grad()
        out = model(x)
        (out[0] if isinstance(out, list) else out).square().sum().backward()
        results.append((out[0] if isinstance(out, list) else out, plain.fc.weight.grad.clone()))
    for expected, got in zip(*results, strict=True):
        assert torch.equal(expected, got)


def test_a_forward_that_follows_training_has_two_graphs_and_a_condition():
    model = made(reads_plain_attributes)
    assert len(traced(model, ["fc"]).graphs[""]) == 1
    capture = trace(model, TraceTargets(["fc"], evaluation=True))
    train, evaluation = capture.graphs[""]
    assert Guard("", "training", True) in train.guards
    assert Guard("", "scale", 2.0) in train.guards
    assert Guard("", "training", False) in evaluation.guards


class Masked(nn.Module):
    """Causal attention, with a mask of sizes that flow in."""

    def __init__(self, mask):
        super().__init__()
        self.qkv, self.mask = nn.Linear(4, 12), mask

    def forward(self, x):
        q, k, v = self.qkv(x).split(4, dim=-1)
        scores = q @ k.transpose(-2, -1)
        return scores.masked_fill(self.mask(scores), -1e9).softmax(-1) @ v


def of_unpacked_sizes(scores):
    b, t, s = scores.shape
    return torch.ones(t, s).tril().expand(b, t, s) == 0


def with_a_type(scores):
    t = scores.size(-1)
    return torch.ones(t, t, dtype=torch.bool, device=scores.device).triu(1)


def of_zeros_written_to(scores):
    t = scores.shape[-1]
    mask = torch.zeros(t, t)
    mask += torch.arange(t) > torch.arange(t)[:, None]
    return mask != 0


def by_a_tensor_of_the_size(scores):
    t = scores.shape[-1]
    return torch.arange(t).expand(t, t) > torch.tensor([t, t]).max() // 2


def of_other_factories(scores):
    t = scores.shape[-1]
    return torch.eye(t) + torch.full((t, t), 0.0) == torch.linspace(0, 1, t)


def of_random_numbers(scores):
    t = scores.shape[-1]
    return torch.rand(t, t) < 0.5


MASKS = (
    of_unpacked_sizes,
    with_a_type,
    of_zeros_written_to,
    by_a_tensor_of_the_size,
    of_other_factories,
    of_random_numbers,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("mask", MASKS, ids=lambda f: f.__name__)
def test_masks_of_sizes_that_flow_in_are_made_anew_at_each_run(mask, dtype):
    model = Masked(mask)
    probed = taiyi_fx.instrument(model, {"qkv": ["OutputRMS"]})
    assert probed.capture.is_whole, probed.capture
    before = torch.get_default_dtype()
    model.to(dtype)
    probed.to(dtype)
    torch.set_default_dtype(dtype)
    try:
        for training, shape in [(True, (2, 3, 4)), (False, (2, 3, 4)), (True, (1, 5, 4))]:
            assert_alike(model.train(training), probed.train(training), torch.randn(shape))
    finally:
        torch.set_default_dtype(before)


def assert_alike(model, probed, x):
    found = []
    for each in (model, probed):
        torch.manual_seed(0)
        each.zero_grad()
        out = each(x)
        out.square().sum().backward()
        found.append((out, each.qkv.weight.grad))
    for expected, got in zip(*found, strict=True):
        assert got.dtype is expected.dtype
        assert torch.equal(got, expected)


def test_a_tensor_of_no_module_is_refused_with_what_to_do():
    def forward(self, x):
        return self.fc(x) * WEIGHTS

    remedy = "reads the global variable 'WEIGHTS', a tensor: pass it in, or register it as a buffer"
    assert remedy in traced(made(forward), ["fc"]).python[""]


def test_a_mask_is_a_call_that_can_be_a_target():
    model = taiyi_fx.instrument(Masked(of_unpacked_sizes), {torch.ones: ["OutputRMS"]})
    for length in (3, 5):
        model(torch.randn(2, length, 4)).sum().backward()
        model.monitor.track(length)
    assert dict(model.monitor.get_output()["ones()"]["OutputRMS"]) == {3: 1.0, 5: 1.0}


def test_in_place_operators_stay_in_place():
    (captured,) = traced(made(adds_in_place), []).graphs[""]
    targets = [node.target for node in captured.graph.nodes]
    assert [t.__name__ for t in targets if callable(t)] == ["iadd", "imul"]


def test_tracing_leaves_model_buffers_and_random_states_as_they_were():
    class Counting(Base):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count.add_(1)
            random.random()
            return self.fc(x) + torch.randn(4) + np.random.rand()

    model = Counting()
    net = nn.Sequential(model, nn.Linear(4, 4))
    before = {k: v for k, v in vars(model).items() if k != "_modules"}
    states = random.getstate(), torch.get_rng_state(), np.random.get_state()[1].copy()
    traced(net, ["1"])
    assert {k: v for k, v in vars(model).items() if k != "_modules"} == before
    assert model.count == 0
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    assert (np.random.get_state()[1] == states[2]).all()


def test_what_garbage_collection_calls_back_is_not_the_models_doing():
    def callback(phase, info):
        time.time()

    gc.callbacks.append(callback)
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        assert traced(made(uses_a_constant), ["fc"]).python == {}
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(callback)
    assert gc.isenabled()


def test_marks_stand_around_each_call_of_a_target():
    shared = nn.Linear(4, 4)
    (captured,) = traced(nn.Sequential(shared, nn.ReLU(), shared), ["0"]).graphs[""]
    marks = [(n.target, n.args[1:]) for n in captured.graph.nodes if n.target in (enter, leave)]
    assert marks == [(m, ("0", call)) for call in (0, 1) for m in (enter, leave)]


class Gate(nn.Module):
    """A part with side effects that its parent reads."""

    def __init__(self):
        super().__init__()
        self.aux = 0.0

    def forward(self, x, losses=None):
        self.aux = x.mean()
        if losses is not None:
            losses.append(self.aux)
        return x


def test_what_a_part_leaves_behind_keeps_its_parent_python():
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = Gate()

        def forward(self, x):
            return self.gate(x) + self.gate.aux

    class Collects(Reads):
        def forward(self, x):
            losses = []
            return self.gate(x, losses) + sum(losses)

    for model, reason in ((Reads(), "self.aux"), (Collects(), "passes a list or dictionary")):
        capture = traced(model, ["gate"])
        assert not capture.graphs
        assert reason in capture.python[""]


def test_a_forward_set_on_the_instance_is_the_models():
    model = nn.Sequential(nn.Linear(4, 4))
    model.forward = lambda x: x * 2
    assert traced(model, ["0"]).python == {"": "was replaced on the instance"}


def test_a_parameter_that_generated_code_would_hide_keeps_it_python():
    def forward(self, torch):
        return self.fc(torch)

    assert traced(made(forward), ["fc"]).python == {"": "has a parameter named 'torch'"}


def test_an_ordered_dictionary_stays_one():
    def forward(self, x):
        return OrderedDict(out=self.fc(x))

    assert "calls `collections.OrderedDict`" in traced(made(forward), ["fc"]).python[""]


def test_annotations_are_of_no_account():
    def forward(self, x: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[int], int] | None:
        return self.fc(x)

    assert traced(made(forward), ["fc"]).python == {}


def test_a_part_that_is_refused_twice_does_not_trace_forever():
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.nothing = float("nan")

        def forward(self, x):
            return x * 2

    assert isinstance(traced(nn.Sequential(Holds()), ["0"]).python, dict)


def test_hooks_on_an_inlined_module_keep_it_python():
    inner = nn.Sequential(nn.Linear(4, 4))
    inner.register_forward_hook(lambda module, args, output: output * 2)
    capture = traced(nn.Sequential(inner), ["0.0"])
    assert capture.python["0"] == "has hooks registered on it"


def test_torchs_composites_are_entered_where_a_target_is_inside():
    model = nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8))
    assert traced(model, ["0"]).python == {}
    assert list(traced(model, ["0.linear1"]).python) == ["", "0"]


def test_most_of_the_fuzzed_blocks_become_graphs():
    """The invariants are fuzzed over both forms; this says which block takes which."""
    python = {b for b in BLOCKS if traced(Chain(b()), [""]).python != {}}
    assert python == {WithoutGradient, Branch}
    assert "torch's own" in traced(Chain(Encoder()), ["first.0.layer.linear1"]).python[""]


def test_modules_may_be_nested_nearly_as_deeply_as_python_can_call_them():
    limit = sys.getrecursionlimit()  # three frames for each call
    model = Nest(limit // 5)
    targets = [name for name, _ in model.named_modules()]
    assert list(traced(model, targets).graphs) == [""]
    assert sys.getrecursionlimit() == limit
