"""Gathered numbers: what is kept when more comes, and what is read anew."""

import numpy as np

from taiyi_fx.pictures.report.gathered import Gathered, Group, GroupName
from taiyi_fx.pictures.report.readout import Described
from taiyi_fx.runs import SeriesName
from taiyi_fx.runs.source import Changed, Slice


class Growing:
    """A readout of two series of one quantity, in slices that are added one by one."""

    def __init__(self):
        self.parts = []
        self.is_changed = False

    def add(self, *points):
        ids, steps, values = zip(*points, strict=True)
        arrays = np.array(ids, np.int64), np.array(steps, np.int64), np.array(values, np.float64)
        self.parts.append(Slice(*arrays, (len(self.parts) + 1,)))

    def series(self):
        return {i: Described(SeriesName(f"m{i}", "q", "train"), "", "") for i in (1, 2)}

    def slices(self, mark=()):
        if mark and self.is_changed:
            raise Changed
        yield from self.parts[mark[0] if mark else 0 :]


def read(group):
    found = group.numbers(list(group.series))
    return list(zip(found.row.tolist(), found.step.tolist(), found.value.tolist(), strict=True))


def test_each_number_is_taken_once():
    run, gathered = Growing(), Gathered()
    run.add((2, 0, 1.5), (1, 0, 2.5))
    gathered.update(run, "run")
    gathered.update(run, "run")
    run.add((2, 1, 3.5))
    gathered.update(run, "run")
    (group,) = gathered.groups
    assert (group.name, group.number) == (GroupName("q", "train"), 1)
    assert (list(group.series), group.size, group.last, group.version) == ([2, 1], 3, 1, 0)
    assert read(group) == [(0, 0, 1.5), (0, 1, 3.5), (1, 0, 2.5)]


def test_a_run_that_lost_numbers_or_is_another_is_read_anew():
    run, gathered = Growing(), Gathered()
    run.add((1, 0, 1.0))
    gathered.update(run, "run")
    before = gathered.generation
    run.is_changed, run.parts = True, []
    run.add((1, 0, 2.0))
    gathered.update(run, "run")
    assert gathered.generation == before + 1
    assert read(gathered.groups[0]) == [(0, 0, 2.0)]
    run.is_changed = False
    gathered.update(run, "another")
    assert gathered.generation == before + 2
    assert read(gathered.groups[0]) == [(0, 0, 2.0)]


def added(*parts):
    group = Group(GroupName("q", "train"), 1)
    for steps, values in parts:
        group.add(np.ones(len(steps), np.int64), np.array(steps), np.array(values, np.float64))
    return group


def test_a_version_grows_with_earlier_steps_and_with_a_wider_type():
    assert added(([0, 1], [1.0, 2.0]), ([2], [3.0])).version == 0
    assert added(([0, 1], [1.0, 2.0]), ([1], [3.0])).version == 1
    wider = added(([0], [1.0]), ([1], [1e300]))
    assert wider.version == 1
    assert wider.kind == np.dtype("<f8")
