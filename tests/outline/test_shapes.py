"""Shapes on edges: of the tensor that passes there, or none."""

import warnings

import torch
from hypothesis import given, settings
from torch import nn
from torch.overrides import TorchFunctionMode

import taiyi_fx
from taiyi_fx.outline.drawing import Drawing
from taiyi_fx.passes.capture.marks import is_mark, pack, unpack
from taiyi_fx.passes.capture.unpacking import items_of
from taiyi_fx.passes.runtime.observe import observe
from tests.models import cases
from tests.pictures.diagram.given import CFG, cnn
from tests.shapes import Interpreted, hooked, tensors


def shapes_of(instrumented, **options):
    graph = taiyi_fx.diagram(instrumented, **options).to_networkx()
    item = {name: i.module or i.label for name, i in graph.nodes(data="item")}
    return {(item[u], item[v]): shape for u, v, shape in graph.edges(data="shape")}


def test_edges_have_the_shapes_that_the_first_probed_forward_showed():
    model = taiyi_fx.instrument(cnn(), CFG)
    x = torch.randn(2, 1, 5, 5)
    expected = {
        ("input", "0"): "2×1×5×5", ("0", "1"): "2×2×3×3", ("1", "2"): "2×2×3×3",
        ("2", "3"): "2×2×3×3", ("3", "output"): "2×18",
    }  # fmt: skip
    assert set(shapes_of(model).values()) == {""}
    assert shapes_of(model, example_inputs=x) == expected
    model(x).sum().backward()
    model.monitor.track(0)
    assert shapes_of(model) == expected
    model(torch.randn(7, 1, 5, 5))
    assert shapes_of(model) == expected


class Forked(nn.Module):
    """Hands over several tensors, none, a number, and one whose shape changes in place."""

    def __init__(self):
        super().__init__()
        self.lstm, self.fc, self.part = nn.LSTM(6, 4), nn.Linear(4, 3), Half()

    def forward(self, x):
        y, (h, _) = self.lstm(x)
        z = self.fc(y)
        z.transpose_(0, 1)
        return self.part(torch.tanh(z)), h.sum()


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.bilinear = nn.Bilinear(3, 3, 1)

    def forward(self, x):
        return self.bilinear(x, x[:1].expand_as(x))


def test_an_edge_over_which_no_one_shape_passes_has_none():
    model = taiyi_fx.instrument(Forked(), {"Linear": ["InputSndNorm"]})
    model(torch.randn(5, 2, 6))
    found = shapes_of(model)
    assert found["x", "lstm"] == "5×2×6"
    assert found["lstm", "getitem"] == ""
    assert found["getitem", "fc"] == "5×2×4"
    assert found["fc", "transpose_"] == "5×2×3"
    assert found["fc", "tanh"] == ""
    assert found["tanh", "part.bilinear"] == "2×5×3"
    assert found["part.bilinear", "output"] == "2×5×1"
    assert found["sum", "output"] == "scalar"


class Flattening(nn.Module):
    """Stays Python; between two modules a function of one input changes the shape."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 2, 3), nn.Linear(18, 4)

    def forward(self, x):
        if x.sum() > 1e9:
            raise AssertionError
        return self.fc(self.conv(x).flatten(1))


def test_behind_a_function_that_is_not_seen_an_edge_has_what_the_module_is_given():
    model = taiyi_fx.instrument(Flattening(), {"fc": ["InputSndNorm"]})
    model(torch.randn(2, 1, 5, 5))
    assert not model.capture.is_whole
    assert shapes_of(model)["conv", "fc"] == "2×18"


def text(shapes):
    return "×".join(map(str, shapes[0])) or "scalar"


@settings(max_examples=60)
@given(cases())
def test_no_edge_of_any_model_has_a_shape_that_did_not_pass(case):
    x = case.batches[0]
    torch.manual_seed(0)  # dropout may decide which way a forward goes
    with Made() as made_anywhere:
        seen = hooked(case.twin(), x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        model = taiyi_fx.instrument(case.twin(), {lambda name, module: True: ["InputSndNorm"]})
    for given_inputs in (x, None):
        torch.manual_seed(0)
        if given_inputs is None:
            model(x)
        graph = all_drawn(model, given_inputs)
        made = made_in_graph(model, case.twin(), x, graph) if model.capture.is_whole else {}
        for source, target, shape in graph.edges(data="shape"):
            if model.capture.is_whole:
                assert shape == (text(made[source]) if len(made[source]) == 1 else "")
            elif shape:
                assert shape in possible(graph, seen, source, target, made_anywhere.shapes)


def all_drawn(model, x):
    """All boxes in order of execution, before any are left out or put together."""
    made = model._instrumentation.compiled
    flow = made.session.flow
    if x is not None:
        capture = model.capture
        flow = observe(made.root, capture.python.keys(), (x,), {}, capture.graphs)
    drawing = Drawing(made, model.monitor.subscriptions, flow)
    drawing.draw()
    return drawing.graph


def made_in_graph(model, twin, x, graph):
    """Of the boxes of a model that is one graph, what an interpreter of it saw made."""
    captured = model.capture.graphs[""][0].graph
    interpreted = Interpreted(twin, captured)
    interpreted.run(x)
    hidden = (pack, unpack, items_of)
    nodes = [n for n in captured.nodes if not is_mark(n) and n.target not in hidden]
    return {b: interpreted.made.get(n.name, ()) for b, n in zip(graph, nodes, strict=True)}


def possible(graph, seen, source, target, made_anywhere):
    """What an edge may say: what a call was given, or the other returned, or else what was made."""
    item = graph.nodes(data="item")
    outputs, inputs = (called(item[name], seen) for name in (source, target))
    if inputs is not None and len(inputs.inputs) == graph.in_degree(target) == 1:
        return text_of_inputs(inputs)
    if outputs is not None and len(outputs.outputs) == 1:
        return [text(outputs.outputs)]
    if item[source].kind == "input":
        return text_of_inputs(seen["", 0])
    return text_of_inputs(inputs) if outputs is not None else made_anywhere


class Made(TorchFunctionMode):
    """The shapes of whatever is made or read while it is entered."""

    def __init__(self):
        super().__init__()
        self.shapes = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        value = func(*args, **(kwargs or {}))
        self.shapes |= {text((shape,)) for shape in tensors((args, kwargs, value))}
        return value


def text_of_inputs(shapes):
    return [] if shapes is None else [text((shape,)) for shape in shapes.inputs]


def called(item, seen):
    if item.kind != "module":
        return None
    name, _, call = item.module.partition("@")
    return seen[name, int(call or 0)]
