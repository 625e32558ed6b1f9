"""The live page's data: what comes bit by bit is what the whole is."""

import math
import shutil
import threading

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import taiyi_fx
from taiyi_fx.pictures.report.live import LiveRun
from taiyi_fx.records.record import Record
from taiyi_fx.writers import Batch, Parquet, Store
from tests.pictures.report.decoded import columns, decoded
from tests.writers.runs import FORMATS, numbers, opened, written

NAN, INF = math.nan, math.inf
both = pytest.mark.parametrize("kind", FORMATS)


class Page:
    """Keeps to what the page does: asks for what is new, or for all where that is told."""

    def __init__(self, live):
        self.live = live
        self.known = {}
        self.whole = 0

    def poll(self):
        head = self.live.header()
        (self.run,) = head["runs"]
        for told in self.run["chunks"]:
            held, after, parts = self.known.get(told["id"], (None, None, []))
            entry, x = self.asked(told["id"], after)
            if (entry["version"], entry["rows"]) != held:
                entry, x = self.asked(told["id"], None)
                parts = []
                self.whole += 1
            key = entry["version"], entry["rows"]
            self.known[told["id"]] = key, entry["last"], [*parts, (entry, x)]
        return head

    def asked(self, number, after):
        chunk = self.live.chunk(number, after)
        names = [one["name"] for one in chunk.entry["arrays"]]
        return chunk.entry, dict(zip(names, chunk.arrays, strict=True))

    def series(self):
        found = {}
        for s in self.run["series"]:
            chunk = self.run["chunks"][s["chunk"]]
            for entry, x in self.known[chunk["id"]][2]:
                cells = columns(entry, x, s["row"])
                name = s["module"], s["quantity"], s["mode"]
                assert not cells.keys() & found.get(name, {}).keys()
                found.setdefault(name, {}).update(cells)
        return found


STEPS = st.lists(st.lists(st.tuples(st.sampled_from("qr"), st.integers(0, 2)), max_size=4), max_size=6)  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flushes=STEPS, back=st.booleans())
def test_what_comes_bit_by_bit_is_the_whole(tmp_path_factory, kind, flushes, back):
    folder = tmp_path_factory.mktemp("live")
    writer = opened(kind, folder / "run")
    page = Page(LiveRun(folder / "run"))
    step = 0
    for flush in flushes:
        for quantity, ahead in flush:
            step += ahead if not (back and ahead == 2) else -step // 2
            values = [1.5 * step, NAN if ahead else INF, -step][: 1 + ahead]
            writer.write(numbers(step, values, quantity=quantity))
        writer.flush()
        page.poll()
    writer.close()
    page.poll()
    whole = decoded(taiyi_fx.report(folder / "run", folder / "x.html"))
    assert page.series() == whole.series()
    assert told(page.run) == told(whole.header["runs"][0])


def told(run):
    kept = (
        "module",
        "quantity",
        "first",
        "last",
        "numbers",
        "nan",
        "inf",
        "latest",
        "state",
        "row",
    )
    return [{name: s[name] for name in kept} for s in run["series"]]


@both
def test_only_what_is_new_is_given(tmp_path, kind):
    writer = opened(kind, tmp_path / "run")
    page = Page(LiveRun(tmp_path / "run"))
    assert page.poll()["runs"][0]["chunks"] == []
    for step in range(4):
        writer.write(numbers(step, [1.0, 2.0]))
        writer.flush()
        page.poll()
    assert page.whole == 1
    ((*_, parts),) = page.known.values()
    assert [entry["columns"] for entry, _ in parts] == [1] * 4
    page.poll()
    assert page.known.popitem()[1][2][-1][0]["columns"] == 0
    writer.close()


def test_ids_stay_when_more_comes(tmp_path):
    writer = opened(Store, tmp_path / "run")
    live = LiveRun(tmp_path / "run")
    writer.write(numbers(0, [1.0], quantity="late"))
    writer.write(Batch(0, records=[Record(0, "m", "vector", torch.ones(3))]))
    writer.flush()
    first = {(c["quantity"], c["mode"]): c["id"] for c in live.header()["runs"][0]["chunks"]}
    writer.write(numbers(1, [1.0, 2.0], quantity="early"))
    writer.write(numbers(1, [1.0], quantity="late", mode="eval"))
    writer.flush()
    later = {(c["quantity"], c["mode"]): c["id"] for c in live.header()["runs"][0]["chunks"]}
    assert first == {key: later[key] for key in first}
    assert len(set(later.values())) == 4
    assert (
        LiveRun(tmp_path / "run").header()["runs"][0]["chunks"][0]["id"] == first["late", "train"]
    )
    writer.close()


def test_vectors_come_as_they_are_made(tmp_path):
    writer = opened(Store, tmp_path / "run")
    live = LiveRun(tmp_path / "run")
    for step in range(3):
        writer.write(Batch(0, records=[Record(step, "m", "v", torch.full((2,), step))]))
    writer.flush()
    ((entry,),) = (run["chunks"] for run in live.header()["runs"])
    assert entry["last"] == 2
    for after, steps in ((None, [0, 1, 2]), (0, [1, 2]), (2, [])):
        chunk = live.chunk(entry["id"], after)
        assert chunk is not None
        assert chunk.arrays[0].tolist() == steps
        assert [row[0] for row in chunk.arrays[2].tolist()] == steps
    writer.close()


@both
def test_a_run_that_is_resumed_is_read_anew(tmp_path, kind):
    written(kind, tmp_path / "run", [numbers(step, [1.0]) for step in range(6)])
    page = Page(LiveRun(tmp_path / "run"))
    page.poll()
    for _ in range(2):  # the second time at the same step, after the same number of steps
        resumed = opened(kind, tmp_path / "run", start_step=3)
        for step in range(3, 6):
            resumed.write(numbers(step, [float(np.random.rand())]))
        resumed.close()
        page.poll()
        whole = decoded(taiyi_fx.report(tmp_path / "run", tmp_path / "x.html"))
        assert page.series() == whole.series()


@both
def test_a_run_that_is_replaced_is_read_anew(tmp_path, kind):
    written(kind, tmp_path / "run", [numbers(step, [1.0]) for step in range(6)])
    page = Page(LiveRun(tmp_path / "run"))
    page.poll()
    written(kind, tmp_path / "run", [numbers(s, [2.0, 3.0]) for s in range(9)], overwrite=True)
    page.poll()
    whole = decoded(taiyi_fx.report(tmp_path / "run", tmp_path / "x.html"))
    assert page.series() == whole.series()


def test_a_run_that_is_deleted_is_told_and_waited_for(tmp_path):
    written(Store, tmp_path / "run", [numbers(0, [1.0])])
    page = Page(LiveRun(tmp_path / "run"))
    before = page.poll()
    assert before["live"] == {"poll_ms": 2000, "problem": ""}
    shutil.rmtree(tmp_path / "run")
    after = page.live.header()
    assert "there is no such folder" in after["live"]["problem"]
    assert after["runs"] == before["runs"]
    written(Parquet, tmp_path / "run", [numbers(0, [5.0])])
    assert page.poll()["live"]["problem"] == ""
    assert page.series()["a", "q", "train"] == {(0, 0): (5, 5, 5, 1, 0, 0)}


def test_a_run_that_was_never_read_has_a_header(tmp_path):
    written(Store, tmp_path / "run", [])
    live = LiveRun(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    (run,) = live.header()["runs"]
    assert (run["name"], run["series"], run["chunks"]) == ("run", [], [])


def test_several_pages_may_ask_at_once(tmp_path):
    writer = opened(Store, tmp_path / "run")
    live = LiveRun(tmp_path / "run")
    pages = [Page(live) for _ in range(4)]
    problems = []

    def watch(page):
        problems.extend(page.poll()["live"]["problem"] for _ in range(10))

    threads = [threading.Thread(target=watch, args=(page,)) for page in pages]
    for thread in threads:
        thread.start()
    for step in range(20):
        writer.write(numbers(step, [1.0 * step]))
        writer.flush()
    for thread in threads:
        thread.join()
    for page in pages:
        page.poll()
        assert len(page.series()["a", "q", "train"]) == 20
    assert set(problems) == {""}
    writer.close()


def test_the_last_steps_that_a_recorder_writes_are_shown_as_they_come(tmp_path):
    model, recorder = torch.nn.Linear(2, 2), taiyi_fx.Recorder(steps=3)
    one = taiyi_fx.instrument(model, {"": ["OutputRMS"]}, recorder=recorder, run=tmp_path / "run")

    def step(number):
        one(torch.randn(4, 2)).sum().backward()
        one.monitor.track(number)
        one.monitor.flush()

    step(0)
    page = Page(LiveRun(tmp_path / "run"))
    page.poll()
    assert {quantity for _, quantity, _ in page.series()} == {"OutputRMS"}
    for number in (1, 2, 3):
        step(number)
    recorder.dump()
    head = page.poll()
    norms = page.series()["", "Recorder.norm", "train"]
    assert [first for first, _ in norms] == [1, 2, 3]
    assert [event["kind"] for event in head["runs"][0]["events"]] == ["recording"]
    ids = {c["quantity"]: c["id"] for c in page.run["chunks"]}
    for number in (4, 5, 6):
        step(number)
    one.monitor.log("new", 1.0)
    recorder.dump()
    page.poll()
    assert ids.items() <= {c["quantity"]: c["id"] for c in page.run["chunks"]}.items()
    one.monitor.close()
    page.poll()
    whole = decoded(taiyi_fx.report(tmp_path / "run", tmp_path / "x.html"))
    assert page.series() == whole.series()
    assert sorted(map(str, told(page.run))) == sorted(map(str, told(whole.header["runs"][0])))
    gradients = page.series()["", "Recorder.grad.abs_max", "train"]
    assert [first for first, _ in gradients] == [1, 2, 3, 4, 5, 6]


def test_a_recording_is_read_once(tmp_path, monkeypatch):
    model, recorder = torch.nn.Linear(2, 2), taiyi_fx.Recorder()
    one = taiyi_fx.instrument(model, {}, recorder=recorder, run=tmp_path / "run")
    one(torch.randn(4, 2)).sum().backward()
    one.monitor.track(0)
    recorder.dump()
    one.monitor.flush()
    page = Page(LiveRun(tmp_path / "run"))
    page.poll()
    monkeypatch.setattr("taiyi_fx.runs.run.recordings_in", None)
    page.poll()
    assert ("", "Recorder.norm", "train") in page.series()
