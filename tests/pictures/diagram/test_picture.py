"""The diagram of an instrumented model: what is in it, and what becomes of it."""

import copy
import json
import os
import re
import warnings
import xml.etree.ElementTree as ET

import networkx as nx
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.outline import Mark, Outline
from taiyi_fx.outline.view import opened
from taiyi_fx.pictures.diagram import picture
from taiyi_fx.testing.blocks import Branch, Chain, Residual, Shared
from tests.pictures.diagram.given import CFG, HOSTILE, cnn, hostile, instrumented_cnn, net, trained


def items(instrumented, **options):
    graph = taiyi_fx.diagram(instrumented, **options).to_networkx()
    return graph, dict(graph.nodes(data="item"))


def labels(diagram):
    return [diagram.outline.items[i].label for i in diagram.view.boxes]


def test_modules_and_their_quantities_are_boxes_with_marks():
    graph, found = items(instrumented_cnn())
    assert [item.label for item in found.values()] == ["input", "0", "1", "2", "3", "output"]
    assert nx.is_path(graph, list(graph.nodes))
    conv, bn, relu = list(found.values())[1:4]
    assert conv.marks.forward == (Mark("InputSndNorm", ""),)
    assert conv.marks.backward == (Mark("OutputGradSndNorm", ""),)
    assert conv.marks.parameters == (Mark("WeightNorm", ""),)
    assert bn.marks.forward == (Mark("MeanTID", "linear(5, 0)"),)
    assert not relu.marks


def test_the_hierarchy_is_clusters_and_operations_stay_visible():
    model = taiyi_fx.instrument(Chain(Residual(), Shared()), {"first": ["InputSndNorm"]})
    diagram = taiyi_fx.diagram(model)
    clusters = {diagram.outline.items[i].module: i for i in diagram.view.clusters}
    assert {"first", "first.0"} <= set(clusters)
    assert diagram.outline.items[clusters["first"]].marks.forward == (Mark("InputSndNorm", ""),)
    assert {"iadd", "fc (call 2)"} <= set(labels(diagram))


def test_a_forward_that_stayed_python_is_drawn_with_its_parts():
    model = taiyi_fx.instrument(Chain(Branch()), {nn.Linear: ["InputSndNorm"]})
    diagram = taiyi_fx.diagram(model)
    graph, found = diagram.to_networkx(), diagram.outline.items
    (python,) = [i for i in graph if found[i].kind == "python"]
    assert "branches on a tensor" in found[python].notes[0]
    parts = [i for i in graph if found[i].module in ("first.0.yes", "first.0.no")]
    assert len(parts) == 2
    assert all(graph.degree(i) == 0 for i in parts)
    assert graph.degree(python) == 0  # what the forward does is known once it has run
    assert "forward that stayed Python" in diagram.to_dot()


def test_a_model_that_stayed_python_is_drawn_from_its_modules():
    class Whole(Chain):
        def forward(self, x):
            return super().forward(x if x.sum() > 0 else -x)

    model = taiyi_fx.instrument(Whole(Branch()), {nn.Linear: ["InputSndNorm"]})
    graph, found = items(model)
    assert [i.module for i in found.values() if i.marks] == ["stem", "first.0.yes", "first.0.no"]
    # Only within `rest`, a part that became a graph of its own, does anything flow as yet.
    joined = {found[n].module for edge in graph.edges for n in edge}
    assert joined.isdisjoint(["stem", "first.0.yes", "first.0.no", ""])


def test_probes_show_what_they_read_last():
    model = trained(net(), torch.ones(3, 4), steps=2)
    head = model.monitor.records.series()["head", "OutputRMS"][1]
    shown = taiyi_fx.diagram(model).to_dot()
    assert f"OutputRMS {head:#.3g}" in shown
    assert "latest value" in shown
    plain = taiyi_fx.diagram(model, values=False).to_dot()
    assert ">OutputRMS&#160;</FONT>" in plain
    assert "latest value" not in plain


def test_alerts_are_seen_on_their_box_and_on_the_closed_box_around_it():
    model = net(blocks=12)
    with torch.no_grad():
        for name, layer in model.named_modules():
            if name in ("blocks.0.mlp.0", "blocks.3.mlp.0"):
                layer.bias.fill_(-300.0)
    ill = trained(model, torch.randn(64, 4))
    assert taiyi_fx.diagram(ill).to_dot().count("DeadNeuronRatio 1.00 !") == 2
    shown = taiyi_fx.diagram(ill, 4).to_dot()
    assert "DeadNeuronRatio 1.00 !" in shown
    assert (
        "! 3 alerts&#160;<" in shown
    )  # the dead layer, what makes it so, and what is small beside
    assert "blocks.3.mlp.1 DeadNeuronRatio 1.00 !" in shown


def test_repeated_blocks_are_one_box_and_full_opens_them():
    model = net(blocks=12)
    diagram = taiyi_fx.diagram(model)
    assert "1 … 11" in labels(diagram)
    assert len(diagram.view.boxes) < 20
    full = taiyi_fx.diagram(model, "full")
    assert set(full.view.boxes) == set(full.to_networkx())


@pytest.mark.parametrize(("depth", "expected"), [(0, ["x", "stem", "blocks", "head", "output"]), (2, ["x", "stem", "0 … 4", "head", "output"]), (3, ["x", "stem", "norm", "mlp", "add", "1 … 4", "head", "output"])])  # fmt: skip
def test_depth_counts_levels_of_modules(depth, expected):
    assert labels(taiyi_fx.diagram(net(), depth)) == expected


def test_a_module_can_be_opened_besides():
    found = labels(taiyi_fx.diagram(net(), 0, ["blocks.2.mlp"]))
    assert found.count("norm") == 1
    assert {"0", "2", "stem"} <= set(found)


def test_what_is_alike_is_opened_together_or_one_of_it():
    def block(i):
        return nn.Sequential(*(nn.Conv2d(i + j, i + j + 1, 1) for j in range(12)))

    for count, open_ones in ((4, 4), (8, 1)):
        model = nn.Sequential(*(block(12 * i + 1) for i in range(count)))
        diagram = taiyi_fx.diagram(taiyi_fx.instrument(model, {}))
        assert len(diagram.view.clusters) == open_ones
        assert len(diagram.view.boxes) == 2 + count + 11 * open_ones


def test_states_that_nothing_uses_are_left_out():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.fc = nn.LSTM(2, 3), nn.Linear(3, 1)

        def forward(self, x):
            states, (_, _) = self.lstm(x)
            return self.fc(states[-1])

    diagram = taiyi_fx.diagram(taiyi_fx.instrument(Last(), {}))
    assert labels(diagram) == ["x", "lstm", "getitem", "fc", "output"]


def test_buffers_and_parameters_are_told_apart():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(2))
            self.register_buffer("shift", torch.zeros(2))

        def forward(self, x):
            return x * self.scale + self.shift

    _, found = items(taiyi_fx.instrument(Own(), {}))
    kinds = {i.label: i.class_name for i in found.values() if i.kind == "parameter"}
    assert kinds == {"scale": "parameter", "shift": "buffer"}


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"expand": ["block.2"]}, LookupError, "no module 'block.2' to expand. Did you mean 'blocks"),
        ({"expand": "blocks.2"}, TypeError, r"expand is a list of modules' names, as \['blocks.2'\]"),
        ({"depth": "deep"}, TypeError, "depth is a number of levels, 'auto' or 'full', not 'deep'"),
        ({"depth": True}, TypeError, "not True"),
        ({"depth": -1}, ValueError, "depth is 0 or more, not -1"),
        ({"direction": "up"}, ValueError, "direction is one of 'TB', 'LR', 'BT', 'RL', not 'up'"),
    ],
)  # fmt: skip
def test_wrong_options_are_told(options, error, told):
    with pytest.raises(error, match=told):
        taiyi_fx.diagram(net(), **options)


def test_what_was_not_instrumented_is_refused():
    with pytest.raises(TypeError, match=r"what taiyi_fx.instrument returned, not a Linear"):
        taiyi_fx.diagram(nn.Linear(2, 2))


def test_only_probed_boxes_are_joined_through_what_is_left_out():
    diagram = taiyi_fx.diagram(taiyi_fx.instrument(cnn(), CFG), only_probed=True)
    assert labels(diagram) == ["0", "1"]
    assert [edge[:2] for edge in diagram.view.edges] == [diagram.view.boxes]
    ends = taiyi_fx.instrument(cnn(), {"0": ["InputRMS"], "3": ["OutputRMS"]})
    diagram = taiyi_fx.diagram(ends, only_probed=True)
    assert labels(diagram) == ["0", "3"]
    assert [edge[:2] for edge in diagram.view.edges] == [diagram.view.boxes]


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
def test_the_direction_is_graphvizs(direction):
    assert f"rankdir={direction}" in taiyi_fx.diagram(net(), direction=direction).to_dot()


def test_hostile_names_come_out_as_text(tmp_path):
    path = taiyi_fx.diagram(hostile()).write(tmp_path / "hostile.svg")
    assert len(HOSTILE) <= len(list(ET.parse(path).iter("{http://www.w3.org/2000/svg}text")))
    assert "<script" not in path.read_text(encoding="utf-8")


def test_hostile_names_are_recorded_and_shown_with_their_values():
    model = trained(hostile(), torch.randn(3, 2))
    assert set(HOSTILE) <= set(model.monitor.get_output())
    assert len(re.findall(r"InputSndNorm \d", taiyi_fx.diagram(model).to_dot())) == len(HOSTILE)


@pytest.mark.parametrize(
    ("suffix", "start"), [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".dot", b"digraph")]
)
def test_a_picture_is_written_by_its_suffix(tmp_path, suffix, start):
    path = taiyi_fx.diagram(instrumented_cnn()).write(tmp_path / f"probes{suffix}")
    assert path.read_bytes().startswith(start)


def test_another_suffix_is_refused(tmp_path):
    diagram = taiyi_fx.diagram(instrumented_cnn())
    with pytest.raises(ValueError, match=r"'probes.gif' should end in .html, .svg, .png or .dot"):
        diagram.write(tmp_path / "probes.gif")
    assert repr(diagram) == "<diagram of 6 boxes, 2 with probes>"


def test_the_same_model_gives_the_same_picture():
    torch.manual_seed(0)
    model = trained(net(), torch.ones(3, 4))
    once, again = taiyi_fx.diagram(model), taiyi_fx.diagram(model)
    assert once.to_dot() == again.to_dot()


def test_a_notebook_shows_the_picture():
    diagram = taiyi_fx.diagram(instrumented_cnn())
    shown = diagram._repr_mimebundle_(include=None, exclude=None)
    assert shown["text/plain"] == repr(diagram)
    assert ET.fromstring(shown["image/svg+xml"]).tag.endswith("svg")


def test_of_a_thousand_boxes_sixty_are_drawn(tmp_path):
    model = taiyi_fx.instrument(
        nn.Sequential(*(nn.Linear(2, 2 + i % 2) for i in range(1000))), {nn.Linear: ["OutputRMS"]}
    )
    diagram = taiyi_fx.diagram(model)
    ET.parse(diagram.write(tmp_path / "thousand.svg"))
    assert len(diagram.view.boxes) <= 60


def test_a_page_shows_what_the_diagram_shows(tmp_path):
    model = trained(net(), torch.ones(3, 4))
    diagram = taiyi_fx.diagram(model, 1, only_probed=True, direction="LR")
    header = header_of(diagram.write(tmp_path / "probes.html"))
    assert Outline.from_json(header["outline"]) == diagram.outline
    assert header["open"] == sorted(opened(diagram.outline, 1))
    assert (header["only_probed"], header["direction"]) == (True, "LR")
    assert {s["module"] for s in header["runs"][0]["series"]} == set(model.monitor.get_output())


def test_a_page_without_values_has_no_series(tmp_path):
    diagram = taiyi_fx.diagram(trained(net(), torch.ones(3, 4)), values=False)
    (run,) = header_of(diagram.write(tmp_path / "probes.html"))["runs"]
    assert run["series"] == run["chunks"] == []


def header_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="taiyi-data">(.*?)</script>', text, re.DOTALL)[1])


def test_a_file_that_was_there_stays_where_another_cannot_be_made(tmp_path, monkeypatch):
    drawn = taiyi_fx.diagram(
        taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"0": ["InputMean"]})
    )
    file = drawn.write(tmp_path / "x.dot")
    before = file.read_bytes()

    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(picture, "to_dot", fails)
    with pytest.raises(MemoryError):
        drawn.write(file)
    assert file.read_bytes() == before
    os.remove(file)
    os.mkfifo(file)
    with pytest.raises(OSError, match="exists and is not a regular file"):
        drawn.write(file)


@pytest.mark.parametrize("is_scaled", [True, False])
def test_the_first_fault_is_opened_and_an_overflow_under_a_scaler_is_none(is_scaled):
    blocks = [nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)) for _ in range(20)]
    model = taiyi_fx.instrument(nn.Sequential(*blocks), {nn.Linear: ["OutputGradNonFinite"]})
    before = labels(taiyi_fx.diagram(model, values=False))
    (model(torch.ones(1, 2)).sum() * torch.inf).backward()
    scaler = torch.amp.GradScaler("cpu", enabled=is_scaled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        model.monitor.track(0, grad_scale=scaler)
    assert (labels(taiyi_fx.diagram(model, values=False)) == before) is is_scaled


def test_what_was_found_is_opened_and_marked():
    block = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))
    model = nn.Sequential(*[copy.deepcopy(block) for _ in range(12)], nn.Linear(16, 4))
    with torch.no_grad():
        model[7][2].weight.mul_(150)
    watched = taiyi_fx.instrument(model, {"Linear": ["WeightNorm", "OutputRMS"]})
    for step in range(12):
        watched(torch.randn(8, 16)).sum().backward()
        watched.monitor.track(step)
    shown = taiyi_fx.diagram(watched)
    modules = [shown.outline.items[i].module for i in shown.view.boxes]
    assert watched.monitor.findings[0].module == "7.2" in modules
    assert re.search(r"WeightNorm [\d.]+ ~", shown.to_dot())
