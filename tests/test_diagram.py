"""The picture: what is in it, that it renders, and that names stay text."""

import subprocess
import sys
import xml.etree.ElementTree as ET

import networkx as nx
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import dot
from taiyi_fx.boxes import Box
from taiyi_fx.testing.blocks import Branch, Chain, Residual, Shared

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
