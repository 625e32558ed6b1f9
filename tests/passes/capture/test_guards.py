"""What a captured graph relies on: as soon as it is another, the model's own Python runs."""

import math
import random
import struct
from collections import OrderedDict
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import gelu

import taiyi_fx
from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.guards import same
from taiyi_fx.passes.capture.trace import trace

CFG = {"fc": ["InputSndNorm", "OutputGradSndNorm"]}
SCALE, TABLE = 2.0, {"a": [1.0], "b": 2.0}
settings = ModuleType("settings")
settings.scale = 2.0


def act(x):
    return torch.tanh(x)


def weighted(x, weight=1.5, *, shift=0.25):
    return x * weight + shift


def closing(factor):
    def scaled(x):
        return x * factor

    return scaled


scaled = closing(2.0)


class Part(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


class Layer(nn.Module):
    factor = 2.0

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.other = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.flag, self.number, self.nothing, self.options = True, 0.0, None, [1.0, 2.0]
        self.signs = {0.0: "a"}
        self.weight = self.fc.weight
        self.parts = nn.ModuleList([Part(4, 4)])

    def mix(self, y):
        return y * 3


class Derived(Layer):
    def mix(self, y):
        return y * 5


def made(forward):
    return type("Made", (Layer,), {"forward": forward, "__module__": __name__})()


def reads_a_number(self, x):
    return torch.atan2(self.fc(x) * 0, torch.ones(4) * self.number - 1) + torch.copysign(
        self.fc(x), torch.full((4,), self.number)
    )


def reads_keys(self, x):
    x = self.fc(x)
    for key in self.signs:
        x = torch.copysign(x, torch.full((4,), key))
    return x


def asks_for_a_class(self, x):
    return self.fc(x) * 2 if isinstance(self.other, Part) else self.fc(x)


def reads_a_flag(self, x):
    return self.fc(x) * (self.flag + 1) if self.flag is True else self.fc(x)


def reads_a_list(self, x):
    return self.fc(x) * self.options[1] + len(self.options)


def reads_a_class(self, x):
    return self.fc(x) * self.factor


def calls_a_method(self, x):
    return self.mix(self.fc(x))


def calls_a_global(self, x):
    return act(self.fc(x)) * SCALE


def reads_a_python_module(self, x):
    return self.fc(x) * settings.scale


def calls_with_defaults(self, x):
    return weighted(self.fc(x))


def calls_what_closes_over(self, x):
    return scaled(self.fc(x))


def calls_torch(self, x):
    return F.relu(self.fc(x))


def calls_torch_by_a_name(self, x):
    return gelu(self.fc(x))


def uses_a_bias(self, x):
    return F.linear(self.fc(x), self.other.weight, self.other.bias)


def has_two_names(self, x):
    return F.linear(self.fc(x), self.weight) + self.fc(x)


def calls_parts(self, x):
    x = self.fc(x)
    for part in self.parts:
        x = part(x)
    return x


def sets(name, value):
    return lambda model, patch: setattr(model, name, value)


def patches(owner, name, value):
    return lambda model, patch: patch.setattr(owner, name, value)


def patches_global(name, value):
    return lambda model, patch: patch.setitem(globals(), name, value)


def gives_a_bias(model, patch):
    model.other.bias = nn.Parameter(torch.ones(4))


def parts_two_names(model, patch):
    model.weight = nn.Parameter(model.weight.detach() * 2)


def is_a_part(model, patch):
    model.other.__class__ = Part


def swaps_the_parts(model, patch):
    torch.manual_seed(1)
    model.parts._modules = OrderedDict({"0": Part(4, 4)})


def becomes_another(of):
    """All that an object has, at once, as people copy one module's state into another."""

    def change(model, patch):
        torch.manual_seed(1)
        of(model).__dict__ = vars(of(Layer()))

    return change


def takes_all_of_another(model, patch):
    torch.manual_seed(1)
    vars(model.other).update(vars(nn.Linear(4, 4)))


def hooks_anew(name, register):
    """A hook after all others were removed at once, as many do it."""

    def change(model, patch):
        setattr(model.parts[0], name, OrderedDict())
        register(model.parts[0])

    return change


def is_of_another_class(model, patch):
    model.__class__ = type("Other", (Derived,), {"forward": type(model).forward})


CHANGES = {
    "-0.0 for 0.0": (reads_a_number, sets("number", -0.0)),
    "1 for True": (reads_a_flag, sets("flag", 1)),
    "an item of a list": (reads_a_list, lambda m, p: m.options.__setitem__(1, 7.0)),
    "a list that grew": (reads_a_list, lambda m, p: m.options.append(7.0)),
    "a class attribute": (reads_a_class, patches(Layer, "factor", 9.0)),
    "an attribute before the class's": (reads_a_class, sets("factor", 9.0)),
    "a method of the class": (calls_a_method, patches(Layer, "mix", lambda self, y: y * 7)),
    "a method of the instance": (calls_a_method, sets("mix", lambda y: y * 7)),
    "another class": (calls_a_method, is_of_another_class),
    "a global": (calls_a_global, patches_global("SCALE", 3.0)),
    "a global function": (calls_a_global, patches_global("act", lambda x: x)),
    "a builtin's name": (reads_a_list, patches_global("len", lambda x: 5)),
    "a function's code": (calls_a_global, patches(act, "__code__", (lambda x: x * 3).__code__)),
    "a setting": (reads_a_python_module, patches(settings, "scale", 3.0)),
    "defaults": (calls_with_defaults, patches(weighted, "__defaults__", (7.0,))),
    "keyword defaults": (calls_with_defaults, patches(weighted, "__kwdefaults__", {"shift": 7.0})),
    "a default of a keyword": (
        calls_with_defaults,
        lambda m, p: p.setitem(weighted.__kwdefaults__, "shift", 7.0),
    ),
    "a cell": (
        calls_what_closes_over,
        lambda m, p: p.setattr(scaled.__closure__[0], "cell_contents", 7.0),
    ),
    "a function of torch's": (calls_torch, patches(F, "relu", torch.tanh)),
    "a name of torch's": (calls_torch_by_a_name, patches_global("gelu", torch.tanh)),
    "a bias that comes later": (uses_a_bias, gives_a_bias),
    "two names that part": (has_two_names, parts_two_names),
    "a part more": (calls_parts, lambda m, p: m.parts.append(nn.Tanh())),
    "0.0 as a key that becomes -0.0": (reads_keys, sets("signs", {-0.0: "a"})),
    "the class of a part that is asked for alone": (asks_for_a_class, is_a_part),
    "the dictionary of parts": (calls_parts, swaps_the_parts),
    "the dictionary of all attributes": (calls_parts, becomes_another(lambda m: m.parts)),
    "all attributes": (uses_a_bias, takes_all_of_another),
    "hooks in another dictionary": (
        calls_parts,
        hooks_anew(
            "_forward_hooks", lambda part: part.register_forward_hook(lambda m, args, y: y * 3)
        ),
    ),
    "hooks before in another dictionary": (
        calls_parts,
        hooks_anew(
            "_forward_pre_hooks",
            lambda part: part.register_forward_pre_hook(lambda m, args: (args[0] * 3,)),
        ),
    ),
    "a part's forward": (calls_parts, patches(Part, "forward", lambda self, x: x * 7)),
}


@pytest.mark.parametrize(("forward", "change"), CHANGES.values(), ids=CHANGES)
def test_what_changes_after_instrument_counts_at_once(forward, change, monkeypatch):
    plain, model = made(forward), made(forward)
    probed, x = taiyi_fx.instrument(model, CFG), torch.randn(3, 4)
    assert probed.capture.is_whole, probed.capture
    assert torch.equal(plain(x), probed(x))
    with monkeypatch.context() as patch:
        for each in (plain, probed._instrumentation.model):
            change(each, patch)
        results = []
        for each in (plain, probed):
            each.zero_grad()
            y = each(x)
            y.square().sum().backward()
            grads = [p.grad for p in each.parameters() if p.grad is not None]
            results.append([y, *grads])
        for expected, got in zip(*results, strict=True):
            assert torch.equal(expected, got)
            assert torch.equal(expected.signbit(), got.signbit())


def test_a_function_that_torch_replaced_is_not_called_under_another_name(monkeypatch):
    plain, probed = (made(calls_torch_by_a_name) for _ in range(2))
    probed, x = taiyi_fx.instrument(probed, CFG), torch.randn(3, 4)
    monkeypatch.setattr(F, "gelu", torch.tanh)  # the forward has gelu by a name of its own
    assert torch.equal(plain(x), probed(x))


def test_values_are_the_same_only_to_the_bit():
    nan, other = (struct.unpack("d", struct.pack("Q", 0x7FF8000000000000 + i))[0] for i in (0, 1))
    assert same(nan, nan)
    assert not same(nan, other)
    pairs = [(0.0, -0.0), (True, 1), (1, 1.0), ((0.0,), (-0.0,)), ([1], [1, 2]), (0j, -0j)]
    pairs += [({0.0: 1}, {-0.0: 1}), ({True: 1}, {1: 1}), ({1: 2}, {3: 2})]
    assert not any(same(a, b) for a, b in pairs)
    assert same((1, [2.0, "a"], {"k": None}), (1, [2.0, "a"], {"k": None}))
    assert same(math.pi, float("3.141592653589793"))


def test_guards_say_what_a_graph_relies_on():
    (captured,) = trace(made(calls_a_global), TraceTargets(["fc"])).graphs[""]
    assert {"act", "SCALE", "forward", "__code__"} <= {guard.name for guard in captured.guards}


def test_guards_are_bound_to_a_copy_of_the_model():
    model, copy = made(uses_a_bias), made(uses_a_bias)
    guards = trace(model, TraceTargets([])).graphs[""][0].guards
    copy.__class__ = type(model)
    bound, of_copy = guards.bind(model, ""), guards.bind(copy, "")
    gives_a_bias(copy, None)
    assert (bound.hold(), of_copy.hold()) == (True, False)


@pytest.mark.parametrize("register", [
    lambda m: m.parts[0].register_forward_hook(lambda *a: None),
    lambda m: m.parts[0].register_full_backward_hook(lambda *a: None),
    lambda m: m.parts[0].compile(backend="eager"),
    lambda m: setattr(m.parts[0], "forward", lambda x: x),
    lambda m: setattr(m.parts, "0", nn.Tanh()),
], ids=["forward hook", "backward hook", "compiled", "own forward", "replaced"])  # fmt: skip
def test_guards_see_what_stands_on_a_part(register):
    model = made(calls_parts)
    bound = trace(model, TraceTargets([])).graphs[""][0].guards.bind(model, "")
    assert bound.hold()
    assert bound.values_hold()
    register(model)
    assert not bound.hold()


class Draws(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.random, self.draw = nn.Linear(4, 4), random.Random(0), random.Random(0).random
        self.numpy, self.stream, self.seen = np.random.default_rng(0), iter([1, 2, 3]), []
        self.count, self.losses = 0, []


def draws(self, x):
    return self.fc(x) * self.random.random()


def draws_by_a_builtin(self, x):
    return self.fc(x) * self.draw()


def draws_by_numpy(self, x):
    return self.fc(x) * self.numpy.random()


def iterates(self, x):
    return self.fc(x) * next(self.stream)


def counts(self, x):
    self.count += 1
    return self.fc(x) * self.count


def collects(self, x):
    self.losses.append(x.sum())
    return self.fc(x)


def exists(value):
    return value is not None


def asks_by_a_helper(self, x, mask=None):
    return self.fc(x) * 2 if exists(mask) else self.fc(x)


def keeps_in_a_default(self, x, cache=TABLE):
    cache["b"] = cache["b"] + 1
    return self.fc(x) * cache["b"]


def multiplies_a_list_of_two_names(self, x):
    sizes = [1, 2]
    same_sizes = sizes
    sizes *= 2
    return self.fc(x) * len(same_sizes)


def adds_to_a_dictionary_of_two_names(self, x):
    sizes = {"a": 1}
    same_sizes = sizes
    sizes |= {"b": 2}
    return self.fc(x) * len(same_sizes)


def imports(self, x):
    from tests.passes.capture.test_guards import SCALE

    return self.fc(x) * SCALE


STATEFUL = [draws, draws_by_a_builtin, draws_by_numpy, iterates, counts, collects,
            asks_by_a_helper, imports, multiplies_a_list_of_two_names,
            adds_to_a_dictionary_of_two_names]  # fmt: skip


@pytest.mark.parametrize("forward", STATEFUL, ids=lambda f: f.__name__)
def test_instrument_runs_nothing_and_every_step_is_the_models(forward):
    kind = type("Made", (Draws,), {"forward": forward})
    plain, model = kind(), kind()
    probed, x = taiyi_fx.instrument(model, CFG), torch.randn(3, 4)
    assert probed.capture.python.keys() == {""}
    assert model.count == 0
    assert not model.losses
    for _ in range(3):
        assert torch.equal(plain(x), probed(x))
        if forward is asks_by_a_helper:
            assert torch.equal(plain(x, x), probed(x, x))


def test_a_default_that_a_forward_changes_keeps_it_python():
    kind = type("Made", (Draws,), {"forward": keeps_in_a_default})
    capture = trace(kind(), TraceTargets(["fc"]))
    assert "has a default that it may change, 'cache'" in capture.python[""]
    assert TABLE["b"] == 2.0


class Counting(nn.Module):
    calls = 0

    def forward(self, x):
        type(self).calls += 1
        return x


def test_what_a_leaf_changes_of_its_class_its_parent_reads():
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.fc, self.leaf = nn.Linear(4, 4), Counting()

        def forward(self, x):
            return self.fc(self.leaf(x)) * Counting.calls

    x, found = torch.randn(3, 4), []
    for wrap in (lambda m: m, lambda m: taiyi_fx.instrument(m, CFG)):
        Counting.calls = 0
        model = wrap(Reads())
        found.append([model(x) for _ in range(3)])
    assert all(map(torch.equal, *found))
