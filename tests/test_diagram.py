"""The picture: what is in it, that it renders, and that names stay text."""

import subprocess
import sys
import warnings
import xml.etree.ElementTree as ET

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from taiyi_fx.boxes import Box
from torch import nn
from torch.overrides import TorchFunctionMode

import taiyi_fx
from taiyi_fx import dot
from taiyi_fx.passes.marks import is_mark, pack, unpack
from taiyi_fx.testing.blocks import Branch, Chain, Residual, Shared
from tests.models import cases
from tests.shapes import Interpreted, hooked, tensors

HOSTILE = [
    'a"b',
    "</script>",
    "x:y",
    "back\\",
    "tab\t\nline",
    "日本",
    "{rec|ord}",
    "<b>&amp;",
    "\\N",
    "%s",
]


def cnn():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.Flatten())


CFG = {"0": ["InputSndNorm", "OutputGradSndNorm", "WeightNorm"], "1": [["MeanTID", "linear(5, 0)"]]}


def boxes(instrumented):
    graph = taiyi_fx.diagram(instrumented).to_networkx()
    return graph, dict(graph.nodes(data="box"))


def test_modules_and_their_quantities_are_boxes_with_marks():
    graph, found = boxes(taiyi_fx.instrument(cnn(), CFG))
    assert [b.label for b in found.values()] == ["input", "0", "1", "2", "3", "output"]
    assert nx.is_path(graph, list(graph.nodes))
    conv, bn = list(found.values())[1:3]
    assert conv.marks.forward == ("InputSndNorm",)
    assert conv.marks.backward == ("OutputGradSndNorm",)
    assert conv.marks.parameters == ("WeightNorm",)
    assert bn.marks.forward == ("MeanTID · linear(5, 0)",)
    assert not list(found.values())[3].marks


def test_shapes_stand_in_the_tooltip_once_a_step_has_run():
    model = taiyi_fx.instrument(cnn(), CFG)
    model(torch.randn(2, 1, 5, 5)).sum().backward()
    model.monitor.track(0)
    _, found = boxes(model)
    notes = list(found.values())[1].notes
    assert notes == ("0: Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))", "input 2 x 1 x 5 x 5", "output 2 x 2 x 3 x 3")  # fmt: skip


def test_the_hierarchy_is_clusters_and_operations_stay_visible():
    model = taiyi_fx.instrument(Chain(Residual(), Shared()), {"first": ["InputSndNorm"]})
    picture = taiyi_fx.diagram(model)
    assert ("first", "first.0") in picture.clusters
    assert picture.clusters[("first",)].marks.forward == ("InputSndNorm",)
    labels = [box.label for _, box in picture.to_networkx().nodes(data="box")]
    assert "iadd" in labels
    assert "fc (call 2)" in labels


def test_a_forward_that_stayed_python_is_drawn_with_its_parts():
    model = taiyi_fx.instrument(Chain(Branch()), {nn.Linear: ["InputSndNorm"]})
    graph, found = boxes(model)
    (python,) = [n for n, b in found.items() if b.kind == "python"]
    assert "branches on a tensor" in found[python].notes[0]
    parts = [n for n, b in found.items() if b.path in ("first.0.yes", "first.0.no")]
    assert len(parts) == 2
    assert all(graph.degree(n) == 0 for n in parts)
    assert graph.degree(python) == 2


def test_a_model_that_stayed_python_is_drawn_from_its_modules():
    class Whole(Chain):
        def forward(self, x):
            return super().forward(x if x.sum() > 0 else -x)

    model = taiyi_fx.instrument(Whole(Branch()), {nn.Linear: ["InputSndNorm"]})
    graph, found = boxes(model)
    assert [b.path for b in found.values() if b.marks] == ["stem", "first.0.yes", "first.0.no"]
    # Only within `rest`, a part that became a graph of its own, does anything flow as yet.
    joined = {found[n].path for edge in graph.edges for n in edge}
    assert joined.isdisjoint(["stem", "first.0.yes", "first.0.no", ""])


def shapes_of(instrumented, **options):
    graph = taiyi_fx.diagram(instrumented, **options).to_networkx()
    box = {name: b.path or b.label for name, b in graph.nodes(data="box")}
    return {(box[u], box[v]): shape for u, v, shape in graph.edges(data="shape")}


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
        self.fc, self.bilinear = nn.Linear(3, 2), nn.Bilinear(3, 3, 1)

    def forward(self, x):
        return self.fc(x) if x.sum() > 1e9 else self.bilinear(x, x[:1].expand_as(x))


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


def text(shapes):
    return "×".join(map(str, shapes[0])) or "scalar"


@settings(max_examples=60)
@given(cases())
def test_no_edge_of_any_model_has_a_shape_that_did_not_pass(case):
    x = case.batches[0]
    with Made() as made_anywhere:
        seen = hooked(case.twin(), x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        model = taiyi_fx.instrument(case.twin(), {lambda name, module: True: ["InputSndNorm"]})
    for given_inputs in (x, None):
        if given_inputs is None:
            model(x)
        graph = taiyi_fx.diagram(model, example_inputs=given_inputs).to_networkx()
        made = made_in_graph(model, case.twin(), x, graph) if model.capture.is_whole else {}
        for source, target, shape in graph.edges(data="shape"):
            if model.capture.is_whole:
                assert shape == (text(made[source]) if len(made[source]) == 1 else "")
            elif shape:
                assert shape in possible(graph, seen, source, target, made_anywhere.shapes)


def made_in_graph(model, twin, x, graph):
    """Of the boxes of a model that is one graph, what an interpreter of it saw made."""
    captured = model.capture.graphs[""][0].graph
    interpreted = Interpreted(twin, captured)
    interpreted.run(x)
    nodes = [n for n in captured.nodes if not is_mark(n) and n.target not in (pack, unpack)]
    return {b: interpreted.made.get(n.name, ()) for b, n in zip(graph, nodes, strict=True)}


def possible(graph, seen, source, target, made_anywhere):
    """What an edge may say: what a call returned, or the other was given, or else what was made."""
    box = graph.nodes(data="box")
    outputs, inputs = (called(box[name], seen) for name in (source, target))
    if outputs is not None and len(outputs.outputs) == 1:
        return [text(outputs.outputs)]
    if box[source].kind == "input":
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


def called(box, seen):
    if box.kind != "module":
        return None
    _, _, call = box.label.partition(" (call ")
    return seen[box.path, int(call.rstrip(")") or 1) - 1]


def hostile():
    model = nn.Sequential()
    for name in HOSTILE:
        model.add_module(name, nn.Linear(2, 2))
    return taiyi_fx.instrument(model, {nn.Linear: ["InputSndNorm", "OutputGradSndNorm"]})


def test_hostile_names_come_out_as_text(tmp_path):
    model = hostile()
    svg = taiyi_fx.diagram(model).write(tmp_path / "hostile.svg")
    texts = [
        (e.text or "").replace("\xa0", " ")
        for e in ET.parse(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    for name in [
        'a"b',
        "</script>",
        "x:y",
        "back\\",
        "tab\\x09 line",
        "日本",
        "{rec|ord}",
        "<b>&amp;",
        "\\N",
        "%s",
    ]:
        assert name in texts, name
    assert "<script" not in svg.read_text()


def test_a_box_without_a_name_is_drawn():
    graph = nx.DiGraph()
    graph.add_node("n0", box=Box("module", "", ""))
    assert b"<svg" in dot.render(dot.build(graph, {}).to_string(), "svg")


def test_hostile_names_are_recorded_too():
    model = hostile()
    model(torch.randn(3, 2)).sum().backward()
    model.monitor.track(0)
    assert set(HOSTILE) <= set(model.monitor.get_output())


@pytest.mark.parametrize(
    ("suffix", "start"), [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".dot", b"digraph")]
)
def test_a_picture_is_written_by_its_suffix(tmp_path, suffix, start):
    path = taiyi_fx.diagram(taiyi_fx.instrument(cnn(), CFG)).write(tmp_path / f"probes{suffix}")
    assert path.read_bytes().startswith(start)


def test_another_suffix_is_refused(tmp_path):
    picture = taiyi_fx.diagram(taiyi_fx.instrument(cnn(), CFG))
    with pytest.raises(ValueError, match="'probes.gif' should end in .dot, .svg or .png"):
        picture.write(tmp_path / "probes.gif")
    assert repr(picture) == "<diagram of 6 boxes, 2 with probes>"


def test_without_graphviz_dot_still_works_and_pictures_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(dot, "find_engine", lambda: None)
    picture = taiyi_fx.diagram(taiyi_fx.instrument(cnn(), CFG))
    picture.write(tmp_path / "probes.dot")
    with pytest.raises(dot.EngineMissing, match=r"pip install 'taiyi-fx\[diagram\]'"):
        picture.write(tmp_path / "probes.svg")
    assert not (tmp_path / "probes.svg").exists()


def test_an_engine_that_fails_shows_what_it_said():
    with pytest.raises(RuntimeError, match="failed"):
        dot.render("digraph {", "svg")


def test_the_engine_is_found_without_an_activated_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    code = "from taiyi_fx import dot; print(dot.find_engine())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "graphviz-pure" in found.stdout


def test_what_was_not_instrumented_is_refused():
    with pytest.raises(TypeError, match="what taiyi_fx.instrument returned, not a Linear"):
        taiyi_fx.diagram(nn.Linear(2, 2))


def test_a_notebook_shows_the_picture_or_its_source(monkeypatch):
    diagram = taiyi_fx.diagram(taiyi_fx.instrument(cnn(), CFG))
    shown = diagram._repr_mimebundle_(include=None, exclude=None)
    assert shown["text/plain"] == repr(diagram)
    assert ET.fromstring(shown["image/svg+xml"]).tag.endswith("svg")
    monkeypatch.setattr(dot, "find_engine", lambda: None)
    assert diagram._repr_mimebundle_() == {"text/plain": diagram.to_dot()}
