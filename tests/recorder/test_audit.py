"""Audits of steps, and of ranks."""

import random
import warnings

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.recorder.audit import audit_step, parted
from taiyi_fx.recorder.replay.alone import _Alone
from tests.distributed.processes import run
from tests.recorder.replay.given import Kept, Net, line_of


def audited(kept):
    return audit_step(kept.keeper.steps[-1], kept.model, kept.ways, [kept.optimizer])


def kept_at_its_last_step(model):
    kept = Kept(model, steps=3)
    kept.step(3)
    return kept


def test_a_step_that_has_the_same_bits_again_is_equal():
    found = audited(kept_at_its_last_step(Net()))
    assert (found.step, found.is_equal, found.text) == (3, True, "")


def test_a_bit_that_was_flipped_in_a_gradient_is_found():
    kept = kept_at_its_last_step(Net())
    kept.model.last.weight.grad.view(torch.int32)[0, 0] ^= 1
    found = audited(kept)
    assert not found.is_equal
    assert found.text.startswith(
        "the gradient of last.weight has other bits than it had then; "
        "two more runs agree with each other: a bit was flipped"
    )


def test_a_bit_that_was_flipped_in_a_computation_is_found():
    model = Net()
    kept = kept_at_its_last_step(model)
    call = kept.keeper.steps[-1].calls[-1]
    high, low, count = call.outputs[0]
    call.outputs = ((high, low ^ 1, count),)
    assert audited(kept).text.startswith("an output has other bits than it had then; two more runs")


def test_an_operation_that_is_not_deterministic_is_told_apart():
    source = random.SystemRandom()
    found = audited(kept_at_its_last_step(Net(lambda h: h * source.random(), at=3)))
    assert "two more runs differ from each other, too" in found.text


@pytest.mark.slow  # inductor
@pytest.mark.filterwarnings("error::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize("on_several_ranks", [False, True])
def test_compiled_code_runs_again_as_compiled_code_with_the_same_bits(
    monkeypatch, on_several_ranks
):
    if on_several_ranks:
        monkeypatch.setattr("taiyi_fx.recorder.replay.rerun.alone", _Alone)
    torch.manual_seed(0)
    layers = nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.5), nn.Linear(32, 16)
    model, recorder = nn.Sequential(*layers), taiyi_fx.Recorder(checkpoint_every=1)
    recorder.audit(every=1)
    one = taiyi_fx.instrument(model, {nn.Linear: ["OutputRMS"]}, recorder=recorder, strict=True)
    compiled = torch.compile(one)
    for step in range(2):
        compiled(torch.randn(8, 16)).square().sum().backward()
        one.monitor.track(step)
        model.zero_grad()
    assert [(found.step, found.is_equal) for found in recorder.audits] == [(0, True), (1, True)]
    one.monitor.close()
    torch._dynamo.reset()


def row(**other):
    return {"a": "1", "b": "2", "c": "3", **other}


@pytest.mark.parametrize(
    ("rows", "ranks", "name", "count"),
    [
        ([row(), row(), row()], [], "", 0),
        ([row(), row(b="x"), row()], [1], "b", 1),
        ([row(a="y"), row(c="x"), row(), row()], [0, 1], "a", 2),
        ([row(), row(a="x", b="y", c="z"), row()], [1], "a", 3),
        ([row(), row(b="x")], [], "b", 1),
        ([row(a="1", b=str(i), c=str(i)) for i in range(4)], [], "", 0),
    ],
)
def test_the_ranks_that_part_from_most_are_named(rows, ranks, name, count):
    assert parted(rows) == {"ranks": ranks, "name": name, "count": count}


def trained(rank, at, spoil, steps=6, **options):
    """The recorder of a rank, with the warnings, of a training that is spoilt at a step."""
    torch.manual_seed(0)
    model = Broken()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    recorder = taiyi_fx.Recorder(**options)
    recorder.audit(every=2)
    instrumented = taiyi_fx.instrument(
        model, {nn.Module: ["NonFinite"]}, optimizer=optimizer, recorder=recorder
    )
    parallel = DistributedDataParallel(instrumented)
    torch.manual_seed(rank)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MonitorWarning)
        for step in range(steps):
            if step == at:
                spoil(model, rank)
            parallel(torch.randn(4, 4)).square().mean().backward()
            instrumented.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()
        instrumented.monitor.close()
    return recorder.audits, recorder.replays, [str(one.message) for one in caught]


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.is_broken = nn.Linear(4, 4), nn.Linear(4, 2), False

    def forward(self, x):
        h = self.first(x)
        return self.last(torch.log(h - 100) if self.is_broken else h)


def flip(model, rank):
    if rank == 1:
        model.last.weight.data.view(torch.int32)[0, 1] ^= 1 << 3


def nothing(model, rank):
    pass


def break_one(model, rank):
    model.is_broken = rank == 1


def flipped_bit(rank, ranks):
    return trained(rank, 3, flip)


def equal(rank, ranks):
    return trained(rank, 3, nothing)


def one_nan(rank, ranks):
    return trained(rank, 3, break_one, checkpoint_every=1)


@pytest.fixture(scope="module", params=[3, pytest.param(4, marks=pytest.mark.slow)])
def answers(request):
    checks = {"flipped bit": flipped_bit, "equal": equal, "one nan": one_nan}
    return run(checks, request.param)


def test_a_flipped_bit_of_one_rank_is_found_and_the_rank_named(answers):
    for audits, _, texts in answers("flipped bit"):
        (first, *_) = [one for one in audits if not one.is_equal]
        assert (first.step, first.ranks) == (4, (1,))
        assert first.text.startswith("rank 1 parts from the others: last.weight")
        assert any(first.text in text for text in texts)


def test_ranks_that_agree_are_equal(answers):
    for audits, replays, texts in answers("equal"):
        assert [one.step for one in audits] == [0, 0, 2, 2, 4, 4]
        assert all(one.is_equal for one in audits)
        assert not replays
        assert not texts


def test_a_nan_of_one_rank_is_traced_on_that_rank(answers):
    for rank, (_, replays, _) in enumerate(answers("one nan")):
        found = replays[0]
        assert found.step == 3
        if rank == 1:
            assert (found.operation, found.phase, found.is_exact) == ("log", "forward", True)
            assert found.line == line_of(Broken, "torch.log")
        else:
            assert found.operation == ""
            assert "nothing went wrong in this rank's own part" in found.note
