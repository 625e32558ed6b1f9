"""Recordings on a page: further series, an event each, and no change of what was found."""

import warnings

import numpy as np
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.pictures.report.contents import contents
from taiyi_fx.pictures.report.readout import MonitorReadout
from taiyi_fx.pictures.report.recorded import RecordedSeries, WithRecordings
from taiyi_fx.runs.recording import STATISTICS


def trained(tmp_path, steps=12, breaks=9):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    recorder = taiyi_fx.Recorder(steps=4)
    one = taiyi_fx.instrument(model, {"0": ["OutputNorm"]}, recorder=recorder, run=tmp_path / "run")
    for step in range(steps):
        if step == breaks:
            model[2].weight.data[0, 0] = torch.nan
        one(torch.randn(8, 4)).sum().backward()
        one.monitor.track(step)
    return one.monitor, recorder


def numbers(readout):
    """Values by module, quantity and step."""
    series = readout.series()
    found = {}
    for one in readout.slices():
        for i, step, value in zip(one.series, one.step, one.value, strict=True):
            name = series[int(i)].name
            found[name.module, name.quantity, int(step)] = float(value)
    return found


def test_all_statistics_of_all_steps_are_series_beside_the_others(tmp_path):
    monitor, recorder = trained(tmp_path)
    plain = MonitorReadout(monitor)
    with_them = WithRecordings(plain, [recorder.dump()])
    found = numbers(with_them)
    expected = numbers(plain)
    for site in recorder.last.sites:
        part = "" if site.place == "output" else "grad."
        for step, values in recorder.last.of(*site).items():
            for name, value in zip(STATISTICS, values, strict=True):
                expected[site.module, f"Recorder.{part}{name}", step] = float(value)
    assert found.keys() == expected.keys()
    np.testing.assert_array_equal([*found.values()], [expected[key] for key in found])


def test_a_step_of_two_recordings_is_there_once(tmp_path):
    _, recorder = trained(tmp_path)
    monitor, _ = trained(tmp_path / "other")
    made = recorder.dump()
    once = WithRecordings(MonitorReadout(monitor), [made])
    twice = WithRecordings(MonitorReadout(monitor), [made, made])
    count = [sum(len(one.step) for one in each.slices()) for each in (once, twice)]
    assert count[0] == count[1] > 0


def test_the_event_names_the_reason_and_the_first_site_and_findings_stay(tmp_path):
    monitor, recorder = trained(tmp_path)
    made = recorder.dump()
    plain = MonitorReadout(monitor)
    with_them = WithRecordings(plain, [made])
    event = with_them.about().events[-1]
    assert (event.step, event.kind, event.module) == (11, "recording", "2")
    assert "first at step 9, in the output of '2'" in event.text
    assert "dump() was called" in event.text
    entries = [contents("run", each).entry for each in (plain, with_them)]
    assert entries[0]["findings"] == entries[1]["findings"]
    flagged = [one for one in entries[1]["series"] if one["quantity"] == "Recorder.non_finite"]
    assert {one["module"]: one["state"] for one in flagged} == {
        "0": "ok", "1": "ok", "2": "alert", "": "alert",
    }  # fmt: skip


def test_of_several_ranks_the_first_is_shown_and_all_are_told(tmp_path):
    from dataclasses import replace

    monitor, recorder = trained(tmp_path)
    made = recorder.dump()
    other = replace(made, rank=3, values=made.values + 1)
    shown = WithRecordings(MonitorReadout(monitor), [made, other])
    assert numbers(shown) == numbers(WithRecordings(MonitorReadout(monitor), [made]))
    assert "of rank 3" in shown.about().events[-1].text


def test_a_page_of_a_run_has_them(tmp_path):
    monitor, recorder = trained(tmp_path)
    recorder.dump()
    monitor.close()
    page = taiyi_fx.report(tmp_path / "run", path=tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    assert "Recorder.grad.abs_max" in text
    assert '"recording"' in text


def test_a_page_has_what_was_found_as_a_step_ran_again(tmp_path):
    recorder = taiyi_fx.Recorder(checkpoint_every=1)
    one = taiyi_fx.instrument(nn.Linear(4, 2), {}, recorder=recorder, run=tmp_path / "run")
    for step in range(3):
        x = torch.randn(8, 4)
        x[0] = torch.nan if step == 2 else 0.0
        one(x).sum().backward()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
            one.monitor.track(step)
    one.monitor.close()
    page = taiyi_fx.report(tmp_path / "run", path=tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    assert "run again: step 2, forward: argument 0 of the model was not finite as it came" in text


def test_by_themselves_they_have_ids_from_zero_and_no_numbers_after_the_first_reading(tmp_path):
    _, recorder = trained(tmp_path)
    made = recorder.dump()
    alone = RecordedSeries([made])
    assert sorted(alone.series()) == [*range(len(made.sites) * len(STATISTICS))]
    (whole,) = alone.slices()
    assert len(whole.value) == np.isfinite(made.values[:, :, -1]).sum() * len(STATISTICS)
    assert list(alone.slices(whole.mark)) == []
    assert next(iter(RecordedSeries([]).slices())).value.size == 0
