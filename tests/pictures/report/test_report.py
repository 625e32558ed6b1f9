"""The file: what is in it is what the run has."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx.pictures.report import contents, state_of
from taiyi_fx.pictures.report.finding_entries import Seen, flagged
from taiyi_fx.records.record import Block, Event
from taiyi_fx.writers import Batch, EpochEnd, Store
from tests.pictures.report.decoded import Elements, decoded
from tests.pictures.report.models import small
from tests.writers.runs import FORMATS, numbers, opened, trained, written

NAN, INF = math.nan, math.inf
both = pytest.mark.parametrize("kind", FORMATS)
NAMES = st.sampled_from(["a", "b.c", "", "</script>\u2028&<!--", "\udc80"])
VALUES = st.floats(width=32) | st.sampled_from([NAN, INF, -INF, 1e300, 1e-300, 2**40, 7])
POINT = st.tuples(st.integers(0, 40), NAMES, st.sampled_from("qr"), st.sampled_from(["train", "eval"]), VALUES)  # fmt: skip


def made_of(points, path, kind=Store):
    batches = [Batch(0, [Block(s, mode, ((m, q),), [v])]) for s, m, q, mode, v in points]
    return written(kind, path, batches)


def by_series(points):
    found = {}
    for step, module, quantity, mode, value in points:
        found.setdefault((module, quantity, mode), []).append((step, float(value)))
    return found


@pytest.mark.parametrize("budget", [6_000_000, 100])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(points=st.lists(POINT, max_size=60))
def test_the_file_has_the_runs_numbers(tmp_path_factory, monkeypatch, budget, points):
    monkeypatch.setattr(contents, "NUMBERS_BUDGET", budget)
    folder = tmp_path_factory.mktemp("made")
    with taiyi_fx.open_run(made_of(points, folder / "run")) as run:
        found = decoded(taiyi_fx.report(run, folder / "run.html"))
        findings = run.findings
    expected = by_series(points)
    series, entries = found.series(), found.entries()
    assert series.keys() == expected.keys() == entries.keys()
    for name, made in expected.items():
        check_columns(series[name], made)
        check_entry(entries[name], sorted(made, key=lambda pair: pair[0]), findings)
    for chunk in found.header["runs"][0]["chunks"]:
        check_type(chunk, expected)


def check_columns(columns, made):
    covered = 0
    for (start, end), (mean, low, high, count, nan, inf) in columns.items():
        inside = [v for step, v in made if start <= step <= end]
        covered += len(inside)
        finite = [v for v in inside if math.isfinite(v)]
        assert (count, nan) == (len(finite), sum(map(math.isnan, inside)))
        assert inf == sum(map(math.isinf, inside))
        if finite:
            with np.errstate(over="ignore"):
                assert low in (min(finite), np.float32(min(finite)))
                assert high in (max(finite), np.float32(max(finite)))
            exact = sum(v / len(finite) for v in finite)
            assert abs(mean - exact) <= 1e-6 * max(map(abs, finite))
    assert covered == len(made)


def check_entry(entry, made, findings):
    steps, values = zip(*made, strict=True)
    assert (entry["first"], entry["last"]) == (min(steps), max(steps))
    assert entry["numbers"] == len(made)
    assert entry["nan"] == sum(map(math.isnan, values))
    assert entry["inf"] == sum(map(math.isinf, values))
    state, trend = state_of(values, entry["health"], entry["unit"])
    (marked,) = flagged([{**entry, "state": state}], Seen(findings))
    assert (entry["state"], entry["trend"]) == (marked["state"], trend)
    latest = float(entry["latest"])
    assert latest == values[-1] or (math.isnan(latest) and math.isnan(values[-1]))


def check_type(chunk, expected):
    group = chunk["quantity"], chunk["mode"]
    values = [v for name, made in expected.items() if name[1:] == group for _, v in made]
    sizes = [abs(v) for v in values if math.isfinite(v) and v]
    is_wide = any(size > 3.5e38 or size < 1e-38 for size in sizes)
    (mean,) = (x for x in chunk["arrays"] if x["name"] == "mean")
    assert mean["dtype"] == ("<f8" if is_wide else "<f4")


CFG = {
    "Linear": ["WeightNorm", ["InputMean", "linear(2, 0)", {"reduce": "feature"}]],
    "0": ["OutputGradNorm", ["ForwardOutput", "every(3)"]],
}


def test_all_ways_of_keeping_a_run_give_the_same_page(tmp_path):
    writers = [kind(tmp_path / kind.__name__) for kind in FORMATS]
    model = taiyi_fx.instrument(small(), CFG, writers=writers)
    trained(model, range(7), loss=1.5)
    model.monitor.log("loss", 2.0, step=6, mode="eval")
    model.monitor.log("loss", NAN, step=6, mode="eval")
    model.monitor.flush()
    pages = [
        decoded(taiyi_fx.report(source, tmp_path / "page.html"))
        for source in (*(tmp_path / kind.__name__ for kind in FORMATS), model, model.monitor)
    ]
    model.monitor.close()
    first, *others = pages
    assert first.series()["", "loss", "eval"][6, 6][3:] == (1, 1, 0)
    assert first.vectors("0", "InputMean")[0].keys() == {0, 2, 4, 6}
    for other in others:
        assert other.series() == first.series()
        assert without_places(other) == without_places(first)
        for name in ("0", "2"):
            found, expected = (page.vectors(name, "InputMean")[0] for page in (other, first))
            assert found.keys() == expected.keys()
            assert all((found[step] == expected[step]).all() for step in expected)
        for part in ("model", "versions", "sessions", "left_out"):
            assert other.header["runs"][0][part] == first.header["runs"][0][part]
    assert first.header["runs"][0]["left_out"] == {"tensors": 1, "events": 0}


def without_places(page):
    return {
        name: {key: value for key, value in entry.items() if key not in ("chunk", "row")}
        for name, entry in page.entries().items()
    }


def test_what_is_known_of_a_run_is_in_the_header(tmp_path):
    writer = opened(Store, tmp_path / "exp1")
    events = [Event(3, "warning", "a", "late"), Event(1, "non_finite", "b", "early")]
    writer.write(numbers(0, [1.0, 2.0], events=events))
    writer.write(numbers(5, [1.0], ended=EpochEnd(0, 4, ())))
    writer.close()
    resumed = opened(Store, tmp_path / "exp1", start_step=9)
    resumed.close()
    head = decoded(taiyi_fx.report(tmp_path / "exp1", tmp_path / "x.html")).header
    (run,) = head["runs"]
    assert (head["version"], head["title"], head["live"]) == (1, "exp1", False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", head["made"])
    assert (run["name"], run["model"]) == ("exp1", "torch.nn.modules.container.Sequential")
    assert run["sessions"] == [0, 9]
    assert run["epochs"] == [[4, 0, 5]]
    assert [event["step"] for event in run["events"]] == [1, 3]
    assert run["events"][0] == {"step": 1, "kind": "non_finite", "module": "b", "text": "early"}


def test_models_of_one_class_are_told_apart_and_other_models_are_not_compared(tmp_path):
    layers = [nn.Linear(4, 4), nn.Tanh()], [nn.Conv1d(4, 4, 1), nn.ReLU(), nn.Sigmoid()]
    watched = [taiyi_fx.instrument(nn.Sequential(*one), {"*": ["OutputRMS"]}) for one in layers]
    for model in watched:
        model(torch.randn(2, 4, 4)).sum().backward()
        model.monitor.track(0)
    for models, count in ((watched, 0), (watched[:1] * 2, 2)):
        head = decoded(taiyi_fx.report(*models, tmp_path / "both.html")).header
        assert [run["name"] for run in head["runs"]] == ["Sequential", "Sequential 2"]
        assert len(head["differences"]) == count


def test_of_very_many_events_the_first_are_shown(tmp_path):
    events = [Event(step, "non_finite", "a", "again") for step in range(1007)]
    path = written(Store, tmp_path / "run", [numbers(0, [1.0], events=events)])
    (run,) = decoded(taiyi_fx.report(path, tmp_path / "x.html")).header["runs"]
    assert (len(run["events"]), run["left_out"]["events"]) == (1000, 7)


def test_of_very_many_events_harmless_ones_are_left_out(tmp_path):
    events = [Event(step, "overflow", "a", "again") for step in range(1007)]
    events.append(Event(2000, "non_finite", "b", "the fault"))
    path = written(Store, tmp_path / "run", [numbers(0, [1.0], events=events)])
    (run,) = decoded(taiyi_fx.report(path, tmp_path / "x.html")).header["runs"]
    assert (len(run["events"]), run["left_out"]["events"]) == (1000, 8)
    assert run["events"][-1]["module"] == "b"


def test_a_monitors_first_sites_are_events(tmp_path):
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"0": ["NonFinite"]})
    model(torch.full((1, 2), INF)).sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="first NaN or Inf"):
        model.monitor.track(0)
    page = decoded(taiyi_fx.report(model, tmp_path / "x.html"))
    (event, *_) = page.header["runs"][0]["events"]
    assert (event["kind"], event["module"], event["step"]) == ("non_finite", "0", 0)
    assert page.entries()["0", "NonFinite", "train"]["state"] == "alert"


def test_gradients_that_overflow_under_a_scaler_are_calm_events_of_a_report(tmp_path):
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"0": ["OutputGradNonFinite"]})
    (model(torch.ones(1, 2)).sum() * INF).backward()
    model.monitor.track(0, grad_scale=torch.amp.GradScaler("cpu"))
    page = decoded(taiyi_fx.report(model, tmp_path / "x.html"))
    (event,) = page.header["runs"][0]["events"]
    assert (event["kind"], event["module"], event["step"]) == ("overflow", "0", 0)


@both
def test_an_empty_run_has_a_page(tmp_path, kind):
    page = decoded(taiyi_fx.report(written(kind, tmp_path / "run", []), tmp_path / "x.html"))
    assert page.header["runs"][0]["series"] == page.header["runs"][0]["chunks"] == []
    assert page.chunks == {}


def test_a_killed_run_has_a_page(tmp_path):
    writer = opened(Store, tmp_path / "run")
    for step in range(3):
        writer.write(numbers(step, [float(step)]))
    writer.flush()  # and no more: there is no index
    page = decoded(taiyi_fx.report(tmp_path / "run", tmp_path / "x.html"))
    assert page.series()["a", "q", "train"].keys() == {(0, 0), (1, 1), (2, 2)}
    writer.close()


def test_two_runs_stand_side_by_side(tmp_path):
    one = written(Store, tmp_path / "one", [numbers(s, [1.0, s]) for s in range(5)])
    two = written(Store, tmp_path / "two", [numbers(s, [2.0], quantity="r") for s in (3, 70)])
    page = decoded(taiyi_fx.report(one, tmp_path / "x.html", compare=two))
    assert page.header["title"] == "one · two"
    assert [run["name"] for run in page.header["runs"]] == ["one", "two"]
    assert page.series(0).keys() == {("a", "q", "train"), ("b", "q", "train")}
    assert page.series(1)["a", "r", "train"].keys() == {(3, 3), (70, 70)}
    ids = [chunk["id"] for run in page.header["runs"] for chunk in run["chunks"]]
    assert sorted(ids) == sorted(page.chunks) == list(range(len(ids)))


def test_several_runs_stand_side_by_side(tmp_path):
    paths = [
        written(Store, tmp_path / name, [numbers(s, [1.0, s]) for s in range(5)]) for name in "abc"
    ]
    pages = [
        taiyi_fx.report(*paths, tmp_path / "x.html"),
        taiyi_fx.report(*paths, path=tmp_path / "y.html"),
        taiyi_fx.report(paths[0], tmp_path / "z.html", compare=paths[1:]),
        taiyi_fx.report(paths[:2], paths[2], tmp_path / "g.html"),
    ]
    for page in map(decoded, pages):
        assert [run["name"] for run in page.header["runs"]] == ["a", "b", "c"]
        ids = [chunk["id"] for run in page.header["runs"] for chunk in run["chunks"]]
        assert sorted(ids) == sorted(page.chunks) == list(range(len(ids)))
    with pytest.raises(TypeError, match="path is the file to write"):
        taiyi_fx.report(paths[0])


HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>", "\u2028\u2029", "{{csp}}", "&lt;"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_text(tmp_path, name):
    path = made_of([(0, name, "q", "train", 1.0)], tmp_path / "run")
    file = taiyi_fx.report(path, tmp_path / "x.html", title=name)
    text = file.read_text(encoding="utf-8")
    plain = taiyi_fx.report(
        made_of([(0, "a", "q", "train", 1.0)], tmp_path / "other"), file, title="t"
    )
    elements = [(tag, given) for tag, given, _ in Elements(text).found]
    assert elements == [
        (tag, given) for tag, given, _ in Elements(plain.read_text(encoding="utf-8")).found
    ]
    page = decoded(text)
    assert page.header["title"] == name
    assert page.series().keys() == {(name, "q", "train")}
    assert f"<title>{'&' if name[0] == '<' else ''}" in text
    assert "alert(1)</script>" not in text


def test_the_file_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = written(Store, tmp_path / "run", [numbers(0, [1.0])])
    file = tmp_path / "page.html"
    file.write_text("before")

    def full(part, to):
        assert part.stat().st_size > 0
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="no space"):
            taiyi_fx.report(path, file)
    assert file.read_text() == "before"
    assert taiyi_fx.report(path, str(file)) == file
    assert sorted(p.name for p in tmp_path.iterdir()) == ["page.html", "run"]


def test_a_report_is_a_page_in_a_folder_that_is_there(tmp_path):
    path = written(Store, tmp_path / "run", [])
    with pytest.raises(ValueError, match=r"'run.pdf' should end in .html"):
        taiyi_fx.report(path, tmp_path / "run.pdf")
    with pytest.raises(FileNotFoundError, match=r"no folder '.*missing' for run.html"):
        taiyi_fx.report(path, tmp_path / "missing" / "run.html")


def test_wrong_arguments_are_told(tmp_path):
    path = written(Store, tmp_path / "run", [])
    with pytest.raises(TypeError, match="returned, not of a Linear"):
        taiyi_fx.report(nn.Linear(2, 2), tmp_path / "x.html")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="path is the file to write, such as 'run.html', not 3"):
        taiyi_fx.report(path, 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="title is a text, not 3"):
        taiyi_fx.report(path, "x.html", title=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="is not a file to write"):
        taiyi_fx.report(path, tmp_path)
    with pytest.raises(ValueError, match="is not a file to write"):
        taiyi_fx.report(path, "")
    with pytest.raises(FileNotFoundError, match="no run in"):
        taiyi_fx.report(tmp_path / "none", tmp_path / "x.html")
    with pytest.raises(FileNotFoundError, match="x.html"):
        taiyi_fx.report(path, tmp_path / "none" / "x.html")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_run_is_reported_without_torch(tmp_path):
    path = written(Store, tmp_path / "run", [numbers(0, [1.0])])
    code = (
        f"import sys, taiyi_fx; taiyi_fx.report({str(path)!r}, {str(tmp_path / 'x.html')!r}); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert json.loads(json.dumps(decoded(tmp_path / "x.html").header))["title"] == "run"


def test_what_is_no_regular_file_is_never_replaced(tmp_path):
    path = written(Store, tmp_path / "run", [])
    pipe = tmp_path / "pipe.html"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="exists and is not a regular file"):
        taiyi_fx.report(path, pipe)
    assert pipe.is_fifo()
