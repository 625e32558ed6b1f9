"""Ranks that write their last steps together."""

import warnings

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import taiyi_fx
from taiyi_fx.recorder.peers import Peers, Told
from tests.distributed.processes import run


@pytest.fixture
def rank(monkeypatch):
    """Makes this process one of two ranks; gives the setter of which."""
    store = dist.HashStore()
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: store)
    return lambda number: monkeypatch.setattr(dist, "get_rank", lambda: number)


def test_another_rank_is_told_once_and_oneself_not(rank):
    rank(0)
    first = Peers()
    first.told()
    rank(1)
    second = Peers()
    second.told()
    rank(0)
    first.tell(3, "an alert")
    assert first.told(at_once=True) == []
    rank(1)
    assert second.told(at_once=True) == [Told(0, 3, "an alert")]
    assert second.told(at_once=True) == []


def test_it_looks_each_half_second(rank):
    now = [0.0]
    rank(1)
    other = Peers(lambda: now[0])
    other.told()
    rank(0)
    Peers().tell(3, "why")
    rank(1)
    now[0] = 0.4
    assert other.told() == []
    now[0] = 0.6
    assert other.told() == [Told(0, 3, "why")]


def test_what_was_told_before_it_began_is_of_another_training(rank):
    rank(0)
    Peers().tell(3, "why")
    rank(1)
    assert Peers().told() == []


def test_a_rank_that_ends_as_it_tells_hides_no_later_one(rank, monkeypatch):
    rank(1)
    other = Peers()
    other.told()
    rank(0)
    first = Peers()
    with monkeypatch.context() as ending:
        ending.setattr("taiyi_fx.recorder.peers.json.dumps", lambda given: ended())
        with pytest.raises(KeyboardInterrupt):
            first.tell(3, "as it ends")
    first.tell(4, "another")
    rank(1)
    assert other.told(at_once=True) == [Told(0, 4, "another")]
    assert other.told(at_once=True) == []
    dist.distributed_c10d._get_default_store().set("taiyi_fx/recorder/1", '[0, 3, "late"]')
    assert other.told(at_once=True) == [Told(0, 3, "late")]


def ended():
    raise KeyboardInterrupt


def test_a_store_that_is_gone_is_warned_of_once(rank, monkeypatch):
    def gone():
        raise RuntimeError("Broken pipe\nat somewhere")

    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", gone)
    rank(0)
    peers = Peers()
    with pytest.warns(taiyi_fx.MonitorWarning, match="together: Broken pipe$"):
        peers.tell(3, "why")
    assert peers.told() == []


def test_one_process_asks_no_store():
    peers = Peers()
    peers.tell(3, "why")
    assert peers.told(at_once=True) == []


def trained(spoil, rank):
    """The last recording of a rank, of a training of which only the loss is logged."""
    torch.manual_seed(0)
    model, recorder = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), taiyi_fx.Recorder(steps=5)
    one = taiyi_fx.instrument(model, {}, recorder=recorder)
    parallel = DistributedDataParallel(one)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", taiyi_fx.MonitorWarning)
        for step in range(8):
            loss = parallel(torch.randn(4, 4)).square().mean()
            loss.backward()
            one.monitor.log("loss", loss.detach())
            one.monitor.track(step)
            spoil(recorder, model, rank, step)
        dist.barrier()
        one.monitor.close()
    texts = [str(one.message) for one in caught]
    last = recorder.last
    return None if last is None else (last.rank, last.steps, last.reasons), texts


def asked(recorder, model, rank, step):
    if (rank, step) == (1, 6):
        recorder.dump()


def broken(recorder, model, rank, step):
    if step == 6:
        model[0].weight.data[0] = torch.nan


def healthy(recorder, model, rank, step):
    pass


def dumped_by_one(rank, ranks):
    return trained(asked, rank)


def alert_of_one(rank, ranks):
    return trained(broken, rank)


def nothing(rank, ranks):
    return trained(healthy, rank)


@pytest.fixture(scope="module")
def answers():
    return run({"dump": dumped_by_one, "alert": alert_of_one, "nothing": nothing}, 2)


def test_a_dump_of_one_rank_has_all_of_them_write(answers):
    (first, texts), (second, _) = answers("dump")
    assert second == (1, (2, 3, 4, 5, 6), ("dump() was called",))
    assert first[0] == 0
    assert first[2] == ("rank 1: dump() was called",)
    assert 6 in first[1]
    assert texts == []


def test_an_alert_of_the_rank_that_records_has_all_of_them_write(answers):
    (first, texts), (second, quiet) = answers("alert")
    assert any("alert" in reason for reason in first[2])
    assert all(reason.startswith("rank 0: ") for reason in second[2])
    assert 7 in second[1]
    assert any(text.startswith("recorded: ") for text in texts)
    assert not any(text.startswith("recorded: ") for text in quiet)


def test_a_healthy_training_writes_nothing(answers):
    assert [last for last, _ in answers("nothing")] == [None, None]
