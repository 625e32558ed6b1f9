"""What a notebook shows of each thing: run as IPython's formatter runs it."""

import html
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.pictures.report.shown import ReportFile


@pytest.fixture
def model():
    made = taiyi_fx.instrument(
        nn.Sequential(nn.Linear(2, 2), nn.ReLU()), {"Linear": ["WeightNorm", "InputMean"]}
    )
    for step in range(3):
        made(torch.ones(1, 2)).sum().backward()
        made.monitor.log("<loss>", 1.0)
        made.monitor.track(step)
    return made


def shown(thing):
    """The HTML: IPython calls the method that is named so, of the class, without arguments."""
    return type(thing)._repr_html_(thing)


def test_a_monitor_shows_its_state_and_its_findings(model):
    text = "<Monitor of Sequential: 2 quantities of 1 modules, 9 records, next step 3>"
    assert repr(model.monitor) == text
    assert shown(model.monitor).startswith(f"<p>{html.escape(text)}</p><p>no findings in ")
    model.monitor.pause()
    assert repr(model.monitor).endswith("next step 3, paused>")


def test_records_are_a_table_with_names_as_they_are(model):
    text = shown(model.monitor.records)
    assert text.startswith("<p>&lt;9 records of 3 series&gt;</p><table><tr><th>module</th>")
    assert "<td>&lt;loss&gt;</td>" in text
    assert text.count("<tr>") == 4


def test_quantities_and_a_capture_are_texts(model):
    assert "WeightNorm" in shown(taiyi_fx.quantities())
    assert repr(model.capture) == "<one graph>"
    assert shown(model.capture) == "<pre>one graph</pre>"
    assert shown(model.monitor.findings).startswith("<p>no findings in 3 series of 1 module,")


def test_a_report_is_the_page_itself_in_a_frame(model, tmp_path):
    file = taiyi_fx.report(model, tmp_path / "run.html")
    assert isinstance(file, Path)
    assert file == tmp_path / "run.html"
    frame = shown(file)
    (inside,) = re.findall(
        r'<iframe sandbox="allow-scripts" style="[^"]*" srcdoc="([^"]*)">', frame
    )
    assert html.unescape(inside) == file.read_text("utf-8")


def test_a_page_that_is_gone_or_too_large_is_its_name(tmp_path, monkeypatch):
    file = ReportFile(tmp_path / "a&b.html")
    assert shown(file) == f"<p>{html.escape(str(file))}</p>"
    file.write_text("x" * 100)
    monkeypatch.setattr("taiyi_fx.pictures.report.shown._MOST", 99)
    assert shown(file) == f"<p>{html.escape(str(file))}</p>"
    assert isinstance(file.parent, Path)


def test_ipython_shows_them_if_it_is_there(model, tmp_path):
    formatters = pytest.importorskip("IPython.core.formatters")
    show = formatters.HTMLFormatter()
    file = taiyi_fx.report(model, tmp_path / "run.html")
    for thing in (
        model.monitor,
        model.monitor.records,
        model.monitor.findings,
        model.capture,
        file,
    ):
        assert show(thing) == shown(thing)
