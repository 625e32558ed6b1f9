"""Runs of several ranks: the one that records has the file, and tells if it cannot have it."""

import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from torch import distributed as dist
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning
from tests.distributed.processes import run


def shared_folder(rank):
    """A folder that all ranks know."""
    names = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(names)
    return Path(names[0])


def trained(folder, **options):
    """What two steps told, and which files there are when all ranks have closed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MonitorWarning)
        model = taiyi_fx.instrument(nn.Linear(4, 2), {"": ["InputMean"]}, run=folder, **options)
        for step in range(2):
            model(torch.randn(3, 4)).sum().backward()
            model.monitor.track(step)
        model.monitor.close()
    dist.barrier()
    files = sorted(str(f.relative_to(folder)) for f in folder.rglob("*.sqlite"))
    return [str(w.message) for w in caught], files


def joined(rank, ranks):
    return trained(shared_folder(rank))


def each_for_itself(rank, ranks):
    return trained(shared_folder(rank), process_group=None)


def where_none_can_be(rank, ranks):
    folder = shared_folder(rank)
    (folder / "run.sqlite").mkdir(exist_ok=True)
    return trained(folder)[0]


@pytest.fixture(scope="module")
def of():
    return run({f.__name__: f for f in (joined, each_for_itself, where_none_can_be)}, 2)


def test_the_rank_that_records_has_the_run(of):
    assert of("joined") == [([], ["run.sqlite"])] * 2


def test_each_rank_for_itself_has_a_run_of_its_own(of):
    files = ["rank1/run.sqlite", "run.sqlite"]
    assert of("each_for_itself") == [([], files)] * 2


def test_a_run_that_cannot_be_opened_is_told_by_the_rank_that_records(of):
    first, second = of("where_none_can_be")
    assert len(first) == 1
    assert "the writer Store failed: " in first[0]
    assert "run.sqlite" in first[0]
    assert second == []
