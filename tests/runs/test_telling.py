"""A run has the findings of its monitor, which knows more than numbers."""

import json
import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.cli import main
from taiyi_fx.findings.as_json import as_json
from taiyi_fx.records.record import Event
from taiyi_fx.runs.schema import Session
from taiyi_fx.runs.telling import told_in
from taiyi_fx.writers import Batch
from tests.runs.test_joined import batch
from tests.watch.given import finding
from tests.writers.runs import FORMATS, info, part_written, written

both = pytest.mark.parametrize("kind", FORMATS)


class OneOfAnotherClass(nn.Sequential):
    """Activations of which one is not what its siblings are, as only the model tells."""

    def __init__(self):
        classes = [nn.ReLU, nn.ReLU, nn.Tanh, nn.ReLU, nn.ReLU, nn.ReLU]
        super().__init__(*(nn.Sequential(nn.Linear(8, 8), kind()) for kind in classes))


def trained(kind, path, steps=range(20), model=None, **more):
    torch.manual_seed(0)
    model = taiyi_fx.instrument(model or OneOfAnotherClass(), writers=[kind(path)], **more)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    model.monitor.watch_optimizer(optimizer)
    for step in steps:
        model(torch.randn(32, 8)).square().mean().backward()
        model.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return model.monitor


@pytest.fixture(autouse=True)
def _in_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        yield


@both
def test_a_run_that_ended_has_what_the_monitor_has(kind, tmp_path):
    monitor = trained(kind, tmp_path)
    here = monitor.findings
    monitor.close()
    assert ("odd_layer", "2.1") in [(one.kind, one.module) for one in here]
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.findings == here
        assert run.findings.looked_at
        assert {event.kind for event in run.events} == {"finding"}


@both
def test_so_has_a_run_that_goes_on_once_it_was_told(kind, tmp_path):
    monitor = trained(kind, tmp_path)
    _ = monitor.records
    monitor.flush()
    with taiyi_fx.open_run(tmp_path) as run:
        assert "odd_layer" in [one.kind for one in run.findings]
    monitor.close()


@both
def test_where_nothing_is_found_numbers_accuse_nobody(kind, tmp_path):
    events = [Event(5, "found", "", "[]")]
    path = written(kind, tmp_path, [*wild(), Batch(0, of_findings=events)])
    with taiyi_fx.open_run(path) as run:
        assert run.findings == []
        assert run.events == []


@both
def test_without_a_word_of_the_monitor_numbers_do(kind, tmp_path):
    with taiyi_fx.open_run(written(kind, tmp_path, wild())) as run:
        assert run.findings


def wild():
    """The numbers of a training that any rule would accuse."""
    return [batch(step, {("", "loss"): float("nan")}) for step in range(5)]


@both
def test_a_run_that_goes_on_forgets_what_was_told_of_steps_that_it_drops(kind, tmp_path):
    trained(kind, tmp_path).close()
    ordinary = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(6)))
    trained(kind, tmp_path, range(10, 30), ordinary, start_step=10).close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert "odd_layer" not in [one.kind for one in run.findings]


@both
def test_modules_of_parts_have_the_names_of_the_run(kind, tmp_path):
    for rank, name in enumerate(("enc", "dec")):
        inner = finding("growth", module="q")
        text = json.dumps([as_json(finding(f"of_{name}", module="", consequences=(inner,)))])
        events = [Event(1, "found", "", text)]
        batches = [batch(0, {("q", "OutputRMS"): 1.0}), Batch(0, of_findings=events)]
        part_written(kind, tmp_path, batches, info(rank=rank, launch="a", part=name))
    with taiyi_fx.open_run(tmp_path) as run:
        found = run.findings
    assert [(one.kind, one.module) for one in found] == [("of_dec", "dec"), ("of_enc", "enc")]
    assert [one.consequences[0].module for one in found] == ["dec.q", "enc.q"]


def test_a_page_and_the_command_have_them(tmp_path, capsys):
    monitor = trained(FORMATS[0], tmp_path)
    live = taiyi_fx.report(monitor, path=tmp_path / "live.html").read_text("utf-8")
    monitor.close()
    page = taiyi_fx.report(tmp_path, path=tmp_path / "page.html").read_text("utf-8")
    main(["show", str(tmp_path)])
    text = next(one.text for one in monitor.findings if one.kind == "odd_layer")
    assert "Tanh" in text
    for shown in (live, page, capsys.readouterr().out):
        assert text in shown.replace("&#x27;", "'")


def test_what_a_session_told_is_of_its_own_steps():
    sessions = [session(0), session(10), session(20)]
    event = Event(15, "found", "", json.dumps([as_json(finding())]))
    assert told_in([event], sessions) == (10, 15, [finding()])
    assert told_in([], sessions) == (0, -1, ())


def session(start):
    return Session(start, "M", [], {}, 0)
