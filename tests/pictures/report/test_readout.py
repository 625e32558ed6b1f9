"""Readouts: a run on disk and a monitor's memory give the same."""

import taiyi_fx
from taiyi_fx.pictures.report.readout import MonitorReadout, RunReadout
from tests.pictures.report.models import small
from tests.writers.runs import trained


def numbers(readout):
    series = readout.series()
    return {
        (series[int(i)].name, int(step)): value
        for part in readout.slices()
        for i, step, value in zip(part.series, part.step, part.value, strict=True)
    }


def vectors(readout):
    series = readout.series()
    return {
        (series[i].name, step): x.tolist()
        for i, shapes in readout.shapes().items()
        for step, x in readout.tensors(i, list(shapes)).items()
    }


def test_memory_and_disk_give_the_same(tmp_path):
    cfg = {"0": ["OutputRMS", "OutputGradNorm", ["InputHistogram", "linear(2, 0)"]]}
    model = trained(taiyi_fx.instrument(small(), cfg, run=tmp_path / "run"), range(4))
    model.monitor.flush()
    memory = MonitorReadout(model.monitor)
    with taiyi_fx.open_run(tmp_path / "run") as run:
        disk = RunReadout(run)
        assert numbers(memory) == numbers(disk) != {}
        assert vectors(memory) == vectors(disk) != {}
        kinds = [
            {s.name: (s.direction, s.unit) for s in r.series().values()} for r in (memory, disk)
        ]
        assert kinds[0] == kinds[1]
        one, other = memory.about(), disk.about()
        assert (one.model, one.outline, list(one.sessions)) == (other.model, other.outline, [0])


def test_numbers_of_memory_are_those_of_the_records():
    model = trained(taiyi_fx.instrument(small(), {"0": ["OutputRMS"]}), range(3))
    values = model.monitor.records.series()["0", "OutputRMS"]
    found = numbers(MonitorReadout(model.monitor))
    assert {step: value for (_, step), value in found.items()} == values
