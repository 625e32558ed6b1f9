"""The file: what is in it is what the run has."""

import base64
import hashlib
import json
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx.outline.items import Item, Outline
from taiyi_fx.pictures.report import contents, state_of
from taiyi_fx.pictures.report.chunks import _EDGES, _trimmed
from taiyi_fx.pictures.report.contents import evenly, in_order, kept_steps
from taiyi_fx.pictures.report.readout import Described
from taiyi_fx.records.record import Block, Event, Record
from taiyi_fx.reductions import histogram_edges
from taiyi_fx.runs import SeriesName
from taiyi_fx.writers import Batch, EpochEnd, Store
from tests.pictures.report.decoded import Elements, decoded
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
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(points=st.lists(POINT, max_size=60))
def test_the_file_has_the_runs_numbers(tmp_path_factory, monkeypatch, budget, points):
    monkeypatch.setattr(contents, "NUMBERS_BUDGET", budget)
    folder = tmp_path_factory.mktemp("made")
    with taiyi_fx.open_run(made_of(points, folder / "run")) as run:
        found = decoded(taiyi_fx.report(run, folder / "run.html"))
    expected = by_series(points)
    series, entries = found.series(), found.entries()
    assert series.keys() == expected.keys() == entries.keys()
    for name, made in expected.items():
        check_columns(series[name], made)
        check_entry(entries[name], sorted(made, key=lambda pair: pair[0]))
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


def check_entry(entry, made):
    steps, values = zip(*made, strict=True)
    assert (entry["first"], entry["last"]) == (min(steps), max(steps))
    assert entry["numbers"] == len(made)
    assert entry["nan"] == sum(map(math.isnan, values))
    assert entry["inf"] == sum(map(math.isinf, values))
    assert (entry["state"], entry["trend"]) == state_of(entry["quantity"], values)
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


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


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


def test_very_many_numbers_are_folded_alike_and_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "NUMBERS_BUDGET", 24 * 1000 + 120)
    batches = [numbers(step, np.random.rand(20).tolist()) for step in range(1000)]
    batches += [numbers(step, [1.0], quantity="rare") for step in range(0, 1000, 100)]
    page = decoded(taiyi_fx.report(written(Store, tmp_path / "run", batches), tmp_path / "x.html"))
    dense, rare = page.header["runs"][0]["chunks"]
    assert not dense["raw"]
    assert (page.chunks[dense["id"]]["start"] % 10 == 0).all()
    assert dense["columns"] == 100
    assert rare["raw"]
    assert rare["columns"] == 10
    assert sum(page.chunks[dense["id"]][name].nbytes for name in ("mean", "min", "max")) == 24_000


def test_histograms_are_between_their_edges(tmp_path):
    assert histogram_edges().tolist() == _EDGES.tolist()
    model = taiyi_fx.instrument(small(), {"2": ["InputHistogram", "WeightHistogram"]})
    x = torch.randn(16, 4)
    model(x).sum().backward()
    model.monitor.track(0)
    page = decoded(taiyi_fx.report(model, tmp_path / "x.html"))
    ((step, counts),), bins = (
        page.vectors("2", "WeightHistogram")[0].items(),
        page.vectors("2", "WeightHistogram")[1],
    )
    weights = model.get_submodule("2").weight.detach().double().numpy()
    assert step == 0
    assert bins["kind"] == "edges"
    assert len(bins["edges"]) == len(counts) + 1
    assert counts[0] > 0 < counts[-1]
    filled = np.flatnonzero(counts)
    for i in filled:
        low, high = bins["edges"][i : i + 2]
        is_inside = (weights >= low) & (weights < high)
        if low < 0:
            is_inside = (weights > low) & (weights <= high)
        assert counts[i] == is_inside.sum()
    assert counts.sum() == weights.size


def histogram(**counts):
    found = np.zeros((2, 514), np.float32)
    for bin_, count in counts.items():
        found[1, 1 + int(bin_[1:])] = count
    return found


@pytest.mark.parametrize(
    ("counts", "edges", "kept"),
    [
        ({}, [-(2.0**128)], []),
        ({"_255": 3}, [0, 0], [3]),
        ({"_383": 1, "_384": 2}, [1, 2, 4], [1, 2]),
        ({"_127": 1, "_383": 5, "_385": 2}, [-2, -1, 1, 2, 4, 8], [1, 0, 5, 0, 2]),
        ({"_127": 1, "_255": 7, "_383": 5}, [-2, -1, 1, 2], [1, 7, 5]),
        ({"_127": 1, "_255": 7, "_382": 5}, [-2, -1, -0.5, 0.5, 1], [1, 0, 7, 5]),
        ({"_255": 7, "_383": 5}, [0, 1, 2], [7, 5]),
        ({"_127": 3, "_255": 2}, [-2, -1, 0], [3, 2]),
        ({"_254": 1, "_255": 7, "_256": 5}, [-(2.0**-126), 0, 0, 2.0**-126], [1, 7, 5]),
    ],
)
def test_empty_bins_outside_and_around_zero_are_not_shown(counts, edges, kept):
    found = _trimmed(histogram(**counts))
    assert found[0].tolist() == edges
    assert found[1].tolist() == [[0] * len(kept), kept]


def test_of_vectors_what_does_not_fit_is_left_out(tmp_path):
    vectors = dict.fromkeys(range(50), (100,))
    shapes = {1: vectors, 2: {0: (2, 2), 1: (3,)}, 3: {7: (5000,)}, 4: {3: ()}, 5: {9: (0,)}}
    assert kept_steps(shapes, 10**9) == {1: list(range(50)), 4: [3], 5: [9]}
    kept = kept_steps(shapes, 3 * 400 * 5)
    assert kept[1] == [0, 12, 24, 36, 49]
    many = {i: {0: (4096,), 8: (4096,)} for i in range(10)}
    assert kept_steps(many, 4096 * 4 * 2) == {i: [8] for i in range(4)}


def test_steps_are_taken_evenly():
    assert evenly([1, 5, 9], 1) == [9]
    assert evenly([1, 5, 9], 2) == [1, 9]
    assert evenly(range(101), 5) == [0, 25, 50, 75, 100]


def test_vectors_of_all_kinds_are_shown_as_float32(tmp_path):
    values = {
        "short then long": [torch.ones(2), torch.arange(4.0)],
        "number": [torch.tensor([[1.0]])[0, 0].reshape(())],
        "complex": [torch.tensor([3 + 4j])],
        "whole": [torch.tensor([7, -7])],
        "too large": [torch.tensor([1e300, -1e300], dtype=torch.float64)],
        "image": [torch.ones(2, 2)],
    }
    records = [Record(s, "m", name, x) for name, xs in values.items() for s, x in enumerate(xs)]
    path = written(Store, tmp_path / "run", [Batch(0, records=records)])
    page = decoded(taiyi_fx.report(path, tmp_path / "x.html"))
    found = {name: page.vectors("m", name)[0] for name in values if name != "image"}
    assert {n: {s: v.tolist() for s, v in x.items()} for n, x in found.items()} == {
        "short then long": {0: [1, 1], 1: [0, 1, 2, 3]},
        "number": {0: [1]},
        "complex": {0: [5]},
        "whole": {0: [7, -7]},
        "too large": {0: [INF, -INF]},
    }
    assert page.header["runs"][0]["left_out"]["tensors"] == 1
    assert ("m", "image", "train") not in page.entries()


def test_rows_are_in_the_order_of_execution_where_it_is_known():
    modules = ["late", "early", "", "unknown", "early@1"]
    series = {i: Described(SeriesName(m, "q", "train"), "", "") for i, m in enumerate(modules)}
    items = [Item("module", m, module=m) for m in ("", "early", "early@1", "late")]
    assert in_order(series, series, Outline(tuple(items), ())) == [2, 1, 4, 0, 3]
    assert in_order([3, 0, 1], series, None) == [3, 0, 1]


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


def test_the_policy_allows_the_pages_own_scripts_and_no_others(tmp_path):
    path = written(Store, tmp_path / "run", [numbers(0, [1.0])])
    page = Elements(taiyi_fx.report(path, tmp_path / "x.html").read_text(encoding="utf-8"))
    policy = dict(part.split(" ", 1) for part in page.policy.split("; "))
    *allowed, wasm = policy["script-src"].split()
    scripts, styles = page.texts("script"), page.texts("style")
    assert len(scripts) > 0 < len(styles)
    assert allowed == [hashed(text) for text in scripts]
    assert policy["style-src"].split() == [hashed(text) for text in styles]
    assert wasm == "'wasm-unsafe-eval'"
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "connect-src" not in policy


def hashed(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_file_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = written(Store, tmp_path / "run", [numbers(0, [1.0])])
    file = tmp_path / "page.html"
    file.write_text("before")
    monkeypatch.setattr(os, "getpid", lambda: 1)
    (tmp_path / ".page.html.1.part").mkdir()
    with pytest.raises(OSError, match="part"):
        taiyi_fx.report(path, file)
    assert file.read_text() == "before"
    (tmp_path / ".page.html.1.part").rmdir()
    assert taiyi_fx.report(path, str(file)) == file
    assert sorted(p.name for p in tmp_path.iterdir()) == ["page.html", "run"]


def test_a_report_is_a_page_in_a_folder_that_is_there(tmp_path):
    path = written(Store, tmp_path / "run", [])
    with pytest.raises(ValueError, match=r"'run.pdf' should end in .html"):
        taiyi_fx.report(path, tmp_path / "run.pdf")
    with pytest.raises(FileNotFoundError, match=r"no folder '.*missing' to write run.html in"):
        taiyi_fx.report(path, tmp_path / "missing" / "run.html")


def test_wrong_arguments_are_told(tmp_path):
    path = written(Store, tmp_path / "run", [])
    with pytest.raises(TypeError, match="returned, not of a Linear"):
        taiyi_fx.report(nn.Linear(2, 2), tmp_path / "x.html")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="path is the file to write, such as 'run.html', not 3"):
        taiyi_fx.report(path, 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="title is a text, not 3"):
        taiyi_fx.report(path, "x.html", title=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="is no file to write"):
        taiyi_fx.report(path, tmp_path)
    with pytest.raises(ValueError, match="is no file to write"):
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
    with pytest.raises(OSError, match="is there and is no regular file"):
        taiyi_fx.report(path, pipe)
    assert pipe.is_fifo()
