"""The shapes that one forward shows: against what hooks see of the plain model."""

import warnings
import weakref

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

import taiyi_fx
from taiyi_fx.passes.capture.marks import is_mark, pack, unpack
from taiyi_fx.passes.flow import observer as flow_module
from taiyi_fx.passes.flow.observer import ObservedForward
from taiyi_fx.passes.flow.shapes import shapes_in
from taiyi_fx.passes.runtime.observe import observe
from taiyi_fx.testing.blocks import Branch, Chain, Residual, Shared
from tests.models import cases
from tests.shapes import Interpreted, hooked


def everything(name, module):
    return True


def instrumented(model, cfg=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        return taiyi_fx.instrument(model, cfg or {everything: ["InputSndNorm"]}, **options)


def flow_of(model):
    return model._instrumentation.compiled.session.flow


def both(make, *args, cfg=None, **kwargs):
    """What hooks see of a model, what the first probed forward shows, and one on a copy."""
    torch.manual_seed(0)
    plain = make()
    seen = hooked(plain, *args, **kwargs)
    model = instrumented(plain, cfg)
    installation = model._instrumentation.compiled.installation
    capture = model.capture
    copy = observe(installation.root, capture.python, args, kwargs, capture.graphs)
    model(*args, **kwargs)
    return seen, flow_of(model), copy


class Wide(nn.Module):
    """Calls parts in every way that a graph has."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(6, 6), nn.Sequential(nn.ReLU(), nn.LayerNorm(6)))
        self.lstm, self.both = nn.LSTM(6, 6, batch_first=True), Both()
        self.shared = Shared()

    def forward(self, x, *, scale):
        x = self.stem(x)
        x, (h, c) = self.lstm(x)
        found = self.both(self.shared(x), y=h * scale)
        return {"a": found["a"], "b": (self.shared(found["b"]), c)}


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.narrow = nn.Linear(6, 3)

    def forward(self, x, *, y):
        return {"a": self.narrow(x), "b": x + 1, "c": self.narrow(y)}


class Outer(nn.Module):
    """Has a graph, that calls what stays Python, that calls a graph."""

    def __init__(self):
        super().__init__()
        self.first, self.kept, self.last = nn.Linear(6, 6), Kept(), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(self.kept(self.first(x)))


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.fc = nn.Sequential(Residual(), nn.Linear(6, 4)), nn.Linear(4, 6)

    def forward(self, x):
        if x.sum() == 0:
            return x
        return self.fc(self.wide(x)) + self.fc(self.wide(x.flip(0)))


@pytest.mark.parametrize("cfg", [None, {"Linear": ["OutputGradSndNorm"]}])
def test_each_call_has_the_shapes_that_hooks_see(cfg):
    x = torch.randn(2, 5, 6)
    for make, kwargs in (
        (Wide, {"scale": 2}),
        (Outer, {}),
        (lambda: Chain(Branch(), Shared()), {}),
    ):
        seen, flow, copy = both(make, x[:, :4] if kwargs == {} else x, cfg=cfg, **kwargs)
        assert flow.problem is copy.problem is None
        assert flow.shapes == seen
        assert copy.shapes == seen


@settings(max_examples=60)
@given(cases())
def test_the_shapes_are_those_of_any_model(case):
    seen, flow, copy = both(case.twin, case.batches[0])
    assert flow.problem is copy.problem is None
    assert flow.shapes == seen
    assert copy.shapes == seen


@settings(max_examples=30)
@given(cases())
def test_the_nodes_of_a_graph_have_the_shapes_that_an_interpreter_sees(case):
    model = instrumented(case.twin())
    graphs = model.capture.graphs.get("")
    model(case.batches[0])
    nodes = flow_of(model).nodes
    if graphs is not None:
        captured = graphs[0].graph
        reference = Interpreted(case.twin(), captured)
        reference.run(case.batches[0])
        real = {n.name for n in captured.nodes if not is_mark(n) and n.target not in (pack, unpack)}
        noted = {n: s.outputs for n, s in nodes[captured, 0].items() if n in real and s.outputs}
        assert noted == {n: shapes for n, shapes in reference.made.items() if n in real}


def test_a_graph_that_runs_twice_has_shapes_for_each_call():
    seen, flow, _ = both(Outer, torch.randn(2, 5, 6))
    assert {call for _, call in flow.nodes} == {0, 1}
    assert flow.shapes["kept.wide.0.fc", 1] == seen["kept.wide.0.fc", 1]


def test_nested_tensors_have_sizes_that_are_no_numbers():
    parts = [torch.randn(2, 3), torch.randn(4, 3)]
    for layout in (torch.strided, torch.jagged):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls them a prototype
            nested = torch.nested.nested_tensor(parts, layout=layout)
        assert shapes_in({"a": (nested, 3), "b": torch.tensor(1.0)}) == ((-1, -1, -1), ())


def bits(model, x):
    torch.manual_seed(0)
    y = model(x)
    return y, *torch.autograd.grad(y.sum(), list(model.parameters()), allow_unused=True)


def test_what_cannot_be_followed_does_not_change_the_forward(monkeypatch):
    x, plain = torch.randn(2, 4, 6), Chain(Shared())
    expected = bits(plain, x)
    for calls in (0, 1, 5, 20):
        left = iter(range(calls))
        monkeypatch.setattr(flow_module, "shapes_in", lambda value, left=left: (next(left),))
        model = instrumented(plain)
        for a, b in zip(expected, bits(model, x), strict=True):
            assert torch.equal(a, b)
        assert isinstance(flow_of(model).problem, StopIteration)


def test_a_forward_that_fails_leaves_nothing_that_follows():
    model = instrumented(Chain(Shared()))
    with pytest.raises(RuntimeError):
        model(torch.randn(2, 4, 7))
    installation = model._instrumentation.compiled.installation
    assert installation.run.observer is None
    assert not any(isinstance(vars(m).get("forward"), ObservedForward) for m in model.modules())
    assert torch.equal(model(torch.ones(2, 4, 6)), model(torch.ones(2, 4, 6)))


@pytest.mark.parametrize("make", [Outer, Wide])
def test_a_forward_patched_before_the_followed_one_is_what_runs(make):
    plain, kwargs = make(), {"scale": 2} if make is Wide else {}
    model = instrumented(plain)
    for net in (plain, model):
        for module in net.modules():
            if isinstance(module, nn.Linear) and module.out_features == 6:
                module.forward = lambda x: x[..., :1].expand(*x.shape[:-1], 6) * 7
    x = torch.randn(2, 5, 6)
    expected, found = (pytree.tree_leaves(net(x, **kwargs)) for net in (plain, model))
    assert all(map(torch.equal, expected, found))


def test_arguments_may_have_any_names():
    class Named(nn.Module):
        def forward(self, call, forward, *, function, owner, node, name, args, kwargs):
            return call + forward + function.view(owner) + node + name + args + kwargs

    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.named = nn.Linear(6, 6), Named()

        def forward(self, x):
            x = self.fc(x)
            more = dict.fromkeys(("function", "node", "name", "args", "kwargs"), x)
            return self.named(x, forward=x, owner=(2, 6), **more)

    seen, flow, copy = both(Root, torch.randn(2, 6))
    assert flow.problem is None
    assert flow.shapes == copy.shapes == seen


def test_compiled_forwards_are_not_followed():
    model = instrumented(Chain(Shared()), {"Linear": ["InputSndNorm"]})
    torch.compile(model, backend="eager", fullgraph=True)(torch.randn(2, 4, 6))
    assert flow_of(model) is None


class Freeing(nn.Module):
    """Makes results that are of no use any more when its last layer is called."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.look = nn.Linear(6, 6), nn.Linear(6, 6), nn.Tanh()

    def forward(self, x):
        return self.look(self.b(self.a(x) * 2) * 2)


class Watching(TorchFunctionMode):
    """Tells, at the last layer, which of the results of the first ones are gone."""

    def __init__(self):
        super().__init__()
        self.made, self.freed = [], []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.tanh:
            self.freed.append([held() is None for held in self.made])
            self.made.clear()
        value = func(*args, **(kwargs or {}))
        if func is F.linear:
            self.made.append(weakref.ref(value))
        return value


def test_what_passes_is_freed_where_the_plain_model_frees_it():
    plain = Freeing()
    model = instrumented(plain, {"look": ["InputSndNorm"]})
    assert model.capture.is_whole
    with Watching() as watching:
        plain(torch.randn(2, 6))
        model(torch.randn(2, 6))
    assert flow_of(model).nodes
    assert watching.freed == [[True, True], [True, True]]
