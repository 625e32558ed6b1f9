"""Stages of a pipeline: each records its own, micro-batches are one batch, and one run has all."""

import tempfile
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B

import taiyi_fx
from tests.distributed.models import recorded
from tests.distributed.processes import run
from tests.distributed.ways import CFG, Block

MICRO_BATCHES, STEPS, BLOCKS = 4, 3, 8


class Part(nn.Module):
    """Some of a model's blocks, under the names that they have in the whole."""

    def __init__(self, places):
        super().__init__()
        self.blocks = nn.ModuleDict({str(place): Block() for place in places})

    def forward(self, x):
        for block in self.blocks.values():
            x = block(x)
        return x


def part(places):
    # In float64: what is compared is what joining does, not the rounding of other batch sizes.
    torch.manual_seed(0)
    whole = Part(range(BLOCKS)).double()
    made = Part([]).double()
    made.blocks.update({str(place): whole.blocks[str(place)] for place in places})
    return made


def batch(step):
    g = torch.Generator().manual_seed(step)
    return torch.randn(2, 8, 5, 8, generator=g, dtype=torch.float64).unbind()


def stages_of(rank, ranks, of_each):
    """The places of the blocks in each stage of a rank, by the stage's number."""
    count = ranks * of_each
    size = BLOCKS // count
    return {i: range(i * size, (i + 1) * size) for i in range(rank, count, ranks)}


def trained(rank, ranks, of_each, make, watch):
    """A pipeline's parts after its training; ``watch(number, part)`` instruments one, or not."""
    models = {
        number: watch(number, part(places))
        for number, places in stages_of(rank, ranks, of_each).items()
    }
    stages = [
        PipelineStage(model, number, ranks * of_each, torch.device("cpu"))
        for number, model in models.items()
    ]
    schedule = make(stages)
    parameters = [p for model in models.values() for p in model.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        losses = []
        to_last = {"target": y, "losses": losses} if rank == ranks - 1 else {}
        schedule.step(*([x] if rank == 0 else []), **to_last)
        for model in models.values():
            if isinstance(model, taiyi_fx.InstrumentedModule):
                if losses and rank == ranks - 1:
                    model.monitor.log("loss", torch.stack(losses).mean())
                model.monitor.track(step, micro_batches=MICRO_BATCHES)
        optimizer.step()
    return models


def one_after_another(stages):
    return Schedule1F1B(stages[0], MICRO_BATCHES, loss_fn=F.mse_loss)


def interleaved(stages):
    return ScheduleInterleaved1F1B(stages, MICRO_BATCHES, loss_fn=F.mse_loss)


def went(rank, ranks, of_each, make, named):
    """Records, the modules and some numbers of the run that all wrote, and if bits are the same."""
    names = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(names)
    folder = Path(names[0])

    def watch(number, model):
        of = {"part": f"stage{number}"} if named else {}
        return taiyi_fx.instrument(model, CFG, run=folder, **of)

    plain = trained(rank, ranks, of_each, make, lambda _, model: model)
    models = trained(rank, ranks, of_each, make, watch)
    same = all(
        torch.equal(a, b)
        for number, model in models.items()
        for a, b in zip(plain[number].parameters(), model.parameters(), strict=True)
    )
    found, missing = {}, {}
    for model in models.values():
        found.update(recorded(model.monitor))
        missing.update(model.monitor.missing)
        model.monitor.close()
    dist.barrier()
    with taiyi_fx.open_run(folder) as opened:
        curves = {
            (name.module, name.quantity, int(step)): value
            for name, curve in opened.curves(opened.spans()).items()
            for step, value in zip(*curve, strict=True)
        }
    return found, curves, missing, same


def stages_in_a_row(rank, ranks):
    return went(rank, ranks, 1, one_after_another, named=False)


def interleaved_stages(rank, ranks):
    return went(rank, ranks, 2, interleaved, named=True)


CHECKS = {check.__name__: check for check in (stages_in_a_row, interleaved_stages)}


@pytest.fixture(scope="module", params=[2, 4])
def answers(request):
    return run(CHECKS, request.param), request.param


@pytest.fixture(scope="module")
def alone():
    """The records of one process that trains the whole model on whole batches."""
    model = taiyi_fx.instrument(part(range(BLOCKS)), CFG)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        model.monitor.track(step)
        optimizer.step()
    return recorded(model.monitor)


@pytest.mark.parametrize("way", CHECKS)
def test_micro_batches_on_all_stages_are_the_whole_batch_of_one_process(answers, alone, way):
    found = {}
    for of_rank, _, missing, same in answers[0](way):
        assert of_rank.keys().isdisjoint(found)
        assert missing == {}
        assert same
        found.update(of_rank)
    found = {key: value for key, value in found.items() if key[1] != "loss"}
    assert len(found) > 100
    assert found == pytest.approx(alone, rel=1e-11)


def test_one_run_has_the_numbers_of_all_stages(answers, alone):
    for _, curves, _, _ in answers[0]("stages_in_a_row"):
        losses = [curves.pop(("", "loss", step)) for step in range(STEPS)]
        assert losses[0] == pytest.approx(loss_of_first_batch())
        assert curves == pytest.approx(alone, rel=1e-11)


def test_parts_with_names_have_them_in_front_of_modules(answers, alone):
    ask, ranks = answers
    named = {}
    for rank in range(ranks):
        for number, places in stages_of(rank, ranks, 2).items():
            named.update({str(place): f"stage{number}." for place in places})
    expected = {
        (named[module.split(".")[1]] + module, quantity, step): value
        for (module, quantity, step), value in alone.items()
    }
    for _, curves, _, _ in ask("interleaved_stages"):
        found = {key: value for key, value in curves.items() if key[1] != "loss"}
        assert found == pytest.approx(expected, rel=1e-11)


def loss_of_first_batch():
    x, y = batch(0)
    return F.mse_loss(part(range(BLOCKS))(x), y).item()
