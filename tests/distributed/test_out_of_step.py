"""Ranks that do not track together: training goes on, and each of them says what is wrong."""

import contextlib
import time
import warnings
from datetime import timedelta

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.step.ranks import gate
from tests.distributed.models import recorded
from tests.distributed.processes import run

CFG = {"Linear": ["InputMean", "OutputGradSndNorm", "WeightNorm"]}
PATIENCE = 2.0


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def rows(rank, step):
    return torch.randn(4, 3, generator=torch.Generator().manual_seed(10 * step + rank)).double()


@contextlib.contextmanager
def told():
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [str(w.message) for w in caught if issubclass(w.category, MonitorWarning)]


def patiently(seconds=PATIENCE):
    """Ranks of this process wait so long; it is the same process for all checks."""
    gate.PATIENCE = timedelta(seconds=seconds)


def trained(rank, steps, track, join=None, wrapped=True, cfg=CFG):
    """Weights after a training, the records, and what was told; ``track(monitor, step)``."""
    model = net() if cfg is None else taiyi_fx.instrument(net(), cfg)
    ddp = DistributedDataParallel(model) if wrapped else model
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    with told() as texts, join(ddp) if join else contextlib.nullcontext():
        for step in range(steps):
            optimizer.zero_grad()
            ddp(rows(rank, step)).square().sum().backward()
            if cfg is not None:
                track(model.monitor, step)
            optimizer.step()
    weights = [p.detach().clone() for p in model.parameters()]
    found = {} if cfg is None else recorded(model.monitor)
    total = torch.ones(1)
    dist.all_reduce(total)  # what ranks exchange afterwards is theirs again
    return weights, found, texts, total.item()


def tracked(monitor, step):
    monitor.track(step)


def joining(ddp):
    return ddp.join()


def throwing(ddp):
    return ddp.join(throw_on_early_termination=True)


def of_uneven_inputs(rank, ranks):
    patiently(60)
    began = time.monotonic()
    found = trained(rank, 3 + 2 * (rank == 0), tracked, joining)
    return *found, time.monotonic() - began


def of_uneven_inputs_plain(rank, ranks):
    return trained(rank, 3 + 2 * (rank == 0), tracked, joining, cfg=None)


def of_even_inputs_that_throw(rank, ranks):
    return trained(rank, 3, tracked, throwing)


def of_even_inputs(rank, ranks):
    return trained(rank, 3, tracked)


def of_a_skipped_track(rank, ranks):
    patiently()
    return trained(rank, 6, lambda m, step: (rank, step) == (1, 2) or m.track(step))


def of_a_track_of_one_rank(rank, ranks):
    patiently()
    return trained(rank, 3, lambda m, step: rank == 0 and m.track(step))


def of_a_writer_that_never_tracks(rank, ranks):
    patiently()
    return trained(rank, 3, lambda m, step: rank == 1 and m.track(step))


def of_a_rank_that_ends_early(rank, ranks):
    """Without a wrapper, as where each rank trains a model of its own."""
    patiently()
    return trained(rank, 3 + 2 * (rank == 0), tracked, wrapped=False)


def of_shifted_steps(rank, ranks):
    patiently(60)
    return trained(rank, 4, lambda m, step: m.track(step + rank), wrapped=False)


def of_an_error_in_track(rank, ranks):
    """An error of ours before the exchange, on one rank and at one step."""
    patiently(60)
    model = taiyi_fx.instrument(net(), CFG)
    table = model.monitor._tracker._collector._table
    measure = table.measure
    with told() as texts:
        for step in range(4):
            model(rows(rank, step)).square().sum().backward()
            table.measure = broken if (rank, step) == (1, 2) else measure
            model.monitor.track(step)
            table.measure = measure
    return recorded(model.monitor), texts


def broken():
    raise MemoryError("no room")


CHECKS = {name: check for name, check in dict(globals()).items() if name.startswith("of_")}


@pytest.fixture(scope="module")
def answers():
    return run(CHECKS, 2)


def steps_of(records, quantity="InputMean", module="0"):
    return {step for m, q, step in records if (m, q) == (module, quantity)}


def ended(texts):
    return [
        text for text in texts if "the ranks no longer exchange statistics" in text.split(":")[0]
    ]


@pytest.mark.slow
def test_join_with_uneven_inputs_trains_as_without_monitoring_and_says_what_is_missing(answers):
    found, plain = answers("of_uneven_inputs"), answers("of_uneven_inputs_plain")
    for (weights, records, texts, total, seconds), (expected, *_) in zip(found, plain, strict=True):
        assert all(map(torch.equal, weights, expected))
        (text,) = ended(texts)
        assert "from step 0 on" in text
        assert "throw_on_early_termination=True" in text
        assert total == 2
        assert seconds < 30  # nobody waited
        assert steps_of(records) == set()
    assert steps_of(found[0][1], "WeightNorm") == set(range(5))  # the first rank's own
    assert not found[1][1]


def test_join_that_throws_on_early_termination_is_joined(answers):
    (weights, records, texts, _), _ = answers("of_even_inputs_that_throw")
    (of_plain, expected, *_), _ = answers("of_even_inputs")
    assert all(map(torch.equal, weights, of_plain))
    assert records == expected
    assert texts == []


def test_a_rank_that_skipped_track_ends_joining_and_not_training(answers):
    found = answers("of_a_skipped_track")
    assert all(map(torch.equal, found[0][0], found[1][0]))
    for _, _, texts, total in found:
        (text,) = ended(texts)
        assert "rank 1 did not call track within 2 s" in text or "step 2 on rank 0" in text
        assert total == 2
    records = found[0][1]
    assert steps_of(records) == {0, 1}
    assert steps_of(records, "WeightNorm") == set(range(6))


def test_one_rank_that_tracks_is_not_left_to_hang(answers):
    (_, records, texts, total), (_, nothing, silent, _) = answers("of_a_track_of_one_rank")
    (text,) = ended(texts)
    assert "from step 0 on" in text
    assert "rank 1 did not call track within 2 s: call it on all ranks" in text
    assert steps_of(records, "WeightNorm") == {0, 1, 2}
    assert steps_of(records) == set()
    assert (nothing, silent, total) == ({}, [], 2)


def test_a_writer_that_never_tracks_is_told_by_the_others(answers):
    _, (_, records, texts, total) = answers("of_a_writer_that_never_tracks")
    (text,) = ended(texts)
    assert "rank 0 did not call track within 2 s" in text
    assert (records, total) == ({}, 2)


def test_a_rank_that_ends_early_is_waited_for_once(answers):
    (_, records, texts, _), (_, _, silent, _) = answers("of_a_rank_that_ends_early")
    (text,) = ended(texts)
    assert "from step 3 on" in text
    assert steps_of(records) == {0, 1, 2}
    assert silent == []


def test_shifted_steps_are_told_at_once(answers):
    for _, records, texts, _ in answers("of_shifted_steps"):
        (text,) = ended(texts)
        assert "track was called for step 0 on rank 0 and step 1 on rank 1" in text
        assert steps_of(records) == set()


def test_an_error_on_one_rank_costs_one_step(answers):
    (records, texts), (_, texts_there) = answers("of_an_error_in_track")
    assert steps_of(records) == {0, 1, 3}
    assert steps_of(records, "WeightNorm") == {0, 1, 2, 3}
    assert ended(texts) == ended(texts_there) == []
    assert "rank 1 could not send it: MemoryError: no room" in texts[0]
    assert "step 2 is dropped: MemoryError: no room" in texts_there[0]
