"""Pages of models that were really trained: diagrams and reports, as users make them."""

import math

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.pictures.report.contents import contents
from taiyi_fx.pictures.report.readout import MonitorReadout
from tests.outline.outlined import Block, Stack


@pytest.fixture
def trained(tmp_path):
    torch.manual_seed(0)
    cfg = {
        nn.Linear: ["OutputRMS", "OutputGradNorm", "Histogram", "WeightNorm"],
        "*": ["NonFinite"],
    }
    model = taiyi_fx.instrument(Stack(*(Block() for _ in range(9))), cfg, run=tmp_path / "run")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(6):
        x = torch.randn(8, 4) * (float("inf") if step == 5 else 1)
        model(x).square().mean().backward()
        if step == 5:
            with pytest.warns(taiyi_fx.MonitorWarning, match="first NaN or Inf"):
                model.monitor.track(step)
        else:
            model.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    model.monitor.close()
    return model


def boxes(page):
    return page.locator("#graph .box").count()


def test_the_page_of_a_diagram_shows_the_same_boxes(trained, tmp_path, show_file):
    diagram = taiyi_fx.diagram(trained)
    page = show_file(diagram.write(tmp_path / "diagram.html"))
    assert boxes(page) == len(diagram.view.boxes)
    assert "OutputRMS" in page.inner_text("#graph")
    wide = taiyi_fx.diagram(trained, 1, only_probed=True, direction="LR")
    page = show_file(wide.write(tmp_path / "wide.html"))
    assert boxes(page) == len(wide.view.boxes) == 3
    assert page.is_checked("#only-probed")
    one, other = (page.locator("#graph .box").nth(i).bounding_box() for i in (0, 2))
    assert other["x"] > one["x"] + one["width"]


def test_a_diagram_without_values_is_a_graph_alone(trained, tmp_path, show_file):
    diagram = taiyi_fx.diagram(trained, values=False)
    page = show_file(diagram.write(tmp_path / "plain.html"))
    assert boxes(page) == len(diagram.view.boxes)
    assert not page.is_visible("#panels")
    assert page.locator("#graph").bounding_box()["width"] > 1000
    assert "–" not in page.inner_text("#graph")


def test_a_report_of_a_run_leads_from_its_first_nan_to_the_box(
    trained, tmp_path, show_file, screenshots
):
    page = show_file(taiyi_fx.report(tmp_path / "run", tmp_path / "run.html"))
    assert page.locator("#graph .alarm").count() == 1
    pane, box = (page.locator(x).bounding_box() for x in ("#graph-pane", "#graph .alarm"))
    assert pane["y"] < box["y"] < pane["y"] + pane["height"]
    assert page.locator("#tabs [aria-pressed=true]").inner_text().startswith("OutputRMS")
    page.locator("#events-section button").first.click()
    assert "stem" in page.inner_text("#curves-title")
    page.screenshot(path=screenshots / "real-run.png")


def test_a_last_layer_that_begins_at_zero_is_flagged_nowhere():
    torch.manual_seed(0)
    plain = nn.Sequential(
        nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 4)
    )
    nn.init.zeros_(plain[4].weight)
    nn.init.zeros_(plain[4].bias)
    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(plain, optimizer=optimizer)
    for step in range(20):
        x = torch.randn(32, 4)
        optimizer.zero_grad()
        (model(x) - x).square().mean().backward()
        model.monitor.track(step)
        optimizer.step()
    agreement = model.monitor.get_output()["0"]["WeightGradAgreement"]
    assert [math.isnan(value) for value in agreement.values()] == [True, False, False]
    assert model.monitor.findings == []
    series = contents("run", MonitorReadout(model.monitor)).entry["series"]
    assert [s["quantity"] for s in series if s["state"] != "ok"] == []
    read = taiyi_fx.diagram(model, values=True)._latest
    assert {mark for mark, one in read.items() if one.state != "ok"} == set()
