"""Ranks whose steps are run again by each alone."""

import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.recorder import load_bad_step
from taiyi_fx.recorder.replay.alone import MeetsOthers, alone, without_wrapper
from taiyi_fx.snapshot.bitwise import difference
from tests.distributed.processes import run
from tests.recorder.replay.given import line_of

AT = 3


class Net(nn.Module):
    """A model whose output depends on a buffer that its forward changes."""

    def __init__(self, gathers=False):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)
        self.register_buffer("centre", torch.zeros(4))
        self.gathers = gathers

    def forward(self, x):
        h = self.norm(self.first(x)) - self.centre
        with torch.no_grad():
            self.centre.lerp_(h.mean(0), 0.1)
            if self.gathers:
                dist.all_reduce(self.centre)
        return self.last(h)


def root_of_negative(loss):
    return torch.sqrt(loss - 100)


class Training:
    """A training on several ranks; the loss of the second one breaks at a step."""

    def __init__(self, rank, *, gathers=False, audits=False, recorded=True, run=None):
        self.rank = rank
        torch.manual_seed(0)
        self.model = Net(gathers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01)
        self.recorder = taiyi_fx.Recorder(checkpoint_every=1) if recorded else None
        if audits:
            self.recorder.audit(every=2)
        self.one = taiyi_fx.instrument(
            self.model,
            {nn.Module: ["NonFinite"]},
            optimizer=self.optimizer,
            recorder=self.recorder,
            run=run,
        )
        self.parallel = DistributedDataParallel(self.one)
        torch.manual_seed(rank)

    def loss(self, y, step):
        loss = y.square().mean()
        return root_of_negative(loss) if (self.rank, step) == (1, AT) else loss

    def run(self, step_of, steps=6):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", MonitorWarning)
            for step in range(steps):
                self.optimizer.zero_grad()
                step_of(torch.randn(8, 4), step)
                self.one.monitor.track(step)
                if step < AT:
                    self.optimizer.step()
            self.one.monitor.close()
        return self, [str(one.message) for one in caught]


def bits(training):
    state = {name: x.clone() for name, x in training.model.state_dict().items()}
    return state | {"drawn": torch.rand(1)}


def told(given):
    training, texts = given
    return training.recorder.replays, texts, bits(training)


def backward_within(rank, ranks):
    training = Training(rank)

    @training.recorder.step
    def step(x, now):
        training.loss(training.parallel(x), now).backward()

    return told(training.run(step))


def plain(rank, ranks):
    training = Training(rank, recorded=False)

    def step(x, now):
        training.loss(training.parallel(x), now).backward()

    training.run(step)
    return bits(training)


def backward_by_the_caller(rank, ranks):
    training = Training(rank)
    loss_of = training.recorder.step(lambda x, now: training.loss(training.parallel(x), now))
    return told(training.run(lambda x, now: loss_of(x, now).backward()))


def logs_the_mean_of_ranks(rank, ranks):
    training = Training(rank)

    @training.recorder.step
    def step(x, now):
        loss = training.loss(training.parallel(x), now)
        loss.backward()
        shown = loss.detach().clone()
        dist.all_reduce(shown)

    return told(training.run(step))


def root_of_loss(model, x, rank, step):
    loss = model(x).square().mean()
    (root_of_negative(loss) if (rank, step) == (1, AT) else loss).backward()


def kept_in_files(rank, ranks):
    with tempfile.TemporaryDirectory() as folder:
        training = Training(rank, run=folder)
        kept = training.recorder.step(root_of_loss)
        training.run(lambda x, now: kept(training.parallel, x, rank, now))
        found = training.recorder.replays[0]
        return found, Path(found.saved).read_bytes()


def loss_of_all_ranks(rank, ranks):
    training = Training(rank)

    @training.recorder.step
    def step_of_all(x, now):
        y = training.parallel(x)
        others = [torch.empty_like(y) for _ in range(ranks)]
        dist.all_gather(others, y.detach())
        training.loss(y - sum(others) / ranks, now).backward()

    return told(training.run(step_of_all))


def model_that_meets_others(rank, ranks):
    training = Training(rank, gathers=True, audits=True)

    def step(x, now):
        training.loss(training.parallel(x), now).backward()

    training, texts = training.run(step)
    return training.recorder.replays, texts, training.recorder.audits


def in_parts(shard):
    def check(rank, ranks):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
        shard(model, init_device_mesh("cpu", (ranks,)))
        recorder = taiyi_fx.Recorder(steps=5, checkpoint_every=1)
        recorder.audit(every=2)
        one = taiyi_fx.instrument(model, {nn.Module: ["NonFinite"]}, recorder=recorder)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", MonitorWarning)
            for step in range(4):
                if (rank, step) == (1, AT):
                    with torch.no_grad():
                        model[2].weight.to_local().fill_(torch.nan)
                one(torch.randn(4, 8)).square().sum().backward()
                one.monitor.track(step)
                one.zero_grad()
            dist.barrier()  # the rank that looks for findings has told the other by now
            one.monitor.close()
        texts = [str(each.message) for each in caught]
        return recorder.last.steps, recorder.last.first_non_finite, texts, recorder.audits

    return check


def by_fsdp(model, mesh):
    fully_shard(model, mesh=mesh)


def by_tensor_parallelism(model, mesh):
    ways = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallelize_module(model, mesh, ways)


def fsdp(rank, ranks):
    return in_parts(by_fsdp)(rank, ranks)


def tensor_parallel(rank, ranks):
    return in_parts(by_tensor_parallelism)(rank, ranks)


class Logs(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8, bias=False), nn.Linear(1, 2)

    def forward(self, x):
        sizes = self.first(x).square().sum(1, keepdim=True)
        return self.last(torch.log(sizes))


def parts_that_keep_what_it_takes(rank, ranks):
    """As docs/how-to/several-ranks.md has it: the whole state now and then, and the batches."""
    (folder,) = everybody_has(tempfile.mkdtemp() if rank == 0 else "")
    torch.manual_seed(0)
    recorder = taiyi_fx.Recorder(steps=5)
    one = taiyi_fx.instrument(
        Logs(), {nn.Module: ["NonFinite"]}, recorder=recorder, run=f"{folder}/run"
    )
    fully_shard(one, mesh=init_device_mesh("cpu", (ranks,)))
    optimizer = torch.optim.SGD(one.parameters(), lr=0.001)
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    torch.manual_seed(rank)
    batches, state = {}, {}
    for step in range(6):
        if step % 2 == 0:
            found = get_model_state_dict(one, options=whole)
            state = found if recorder.last is None else state
        batches[step] = torch.randn(8, 4)
        if (rank, step) == (1, AT):
            batches[step][3] = 0.0
        one(batches[step]).square().mean().backward()
        one.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()  # the rank that looks for findings has told the other by now
    one.monitor.close()
    return recorder.last.first_non_finite, batches, state


def everybody_has(value):
    held = [value]
    dist.broadcast_object_list(held)
    return held


@pytest.fixture(scope="module")
def answers():
    checks = {
        "within": backward_within,
        "plain": plain,
        "by the caller": backward_by_the_caller,
        "logs": logs_the_mean_of_ranks,
        "files": kept_in_files,
        "loss of all": loss_of_all_ranks,
        "model": model_that_meets_others,
        "tensor parallel": tensor_parallel,
    }
    if torch.__version__ >= (2, 7):  # torch 2.6 cannot run fully_shard on a CPU
        checks["fsdp"] = fsdp
        checks["parts by hand"] = parts_that_keep_what_it_takes
    return run(checks, 2)


@pytest.mark.slow  # ranks
@pytest.mark.parametrize("way", ["within", "by the caller", "logs"])
def test_a_nan_of_one_ranks_loss_is_named_with_its_line(answers, way):
    (first, texts, _), (second, _, _) = answers(way)
    found = second[0]
    assert (found.step, found.operation, found.phase) == (AT, "sqrt", "forward")
    assert (found.file, found.line) == (__file__, line_of(root_of_negative, "sqrt"))
    assert (found.is_outside, found.is_exact) == (True, True)
    assert first[0].operation == ""
    assert first[0].is_exact
    assert "nothing went wrong in this rank's own part" in first[0].note
    assert not any("failed" in text or "raised" in text for text in texts)


@pytest.mark.slow  # ranks
def test_an_exchange_behind_backward_ends_it(answers):
    for replays, _, _ in answers("logs"):
        note = replays[0].note
        assert "step waits for other ranks (allreduce), and they do not run the step again" in note
        assert "by then backward had run" in note


@pytest.mark.slow  # ranks
def test_a_training_of_ranks_is_the_same_to_the_bit(answers):
    for before, (_, _, after) in zip(answers("plain"), answers("within"), strict=True):
        assert before.keys() == after.keys()
        assert [name for name, x in before.items() if difference(x, after[name])] == []


@pytest.mark.slow  # ranks
def test_the_file_of_a_rank_runs_again_elsewhere(answers, tmp_path):
    for rank, (found, content) in enumerate(answers("files")):
        (tmp_path / f"{rank}").write_bytes(content)
        again = load_bad_step(tmp_path / f"{rank}").run_on(Net(), root_of_loss)
        assert again.is_exact, again.note
        assert (again.operation, again.line) == (found.operation, found.line)
    assert again.operation == "sqrt"


@pytest.mark.slow  # ranks
def test_an_exchange_before_backward_leaves_the_calls_of_the_model(answers):
    for rank, (replays, texts, _) in enumerate(answers("loss of all")):
        found = replays[0]
        assert found.is_exact, found.note
        assert "step_of_all waits for other ranks (allgather)" in found.note
        assert any("is run again without its function" in text for text in texts)
        if rank == 1:
            assert found.operation == "the gradient that reached output 0 of the model"


@pytest.mark.slow  # ranks
def test_a_model_that_waits_for_others_is_not_run_again(answers):
    for replays, texts, audits in answers("model"):
        assert replays == []
        (why,) = [text for text in texts if "was not run again" in text]
        assert "the model waits for other ranks (allreduce)" in why
        (why,) = [text for text in texts if "is not run twice" in text]
        assert [one.step for one in audits] == [0, 2, 4]


@pytest.mark.slow  # ranks
@pytest.mark.parametrize("way", ["fsdp", "tensor parallel"])
def test_a_model_in_parts_is_recorded_and_that_no_step_is_run_again_is_said_at_once(answers, way):
    if way == "fsdp" and torch.__version__ < (2, 7):
        pytest.skip("torch 2.6 cannot run fully_shard on a CPU")
    for steps, first, texts, audits in answers(way):
        assert steps == (0, 1, 2, AT)
        assert first[0] == AT
        (why,) = [text for text in texts if text.startswith("no step will be run again")]
        assert "0.weight is held by several ranks in parts (FSDP, tensor parallelism)" in why
        assert all(one.is_equal for one in audits)


@pytest.mark.slow  # ranks
@pytest.mark.skipif(torch.__version__ < (2, 7), reason="cannot run fully_shard on a CPU")
@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_step_of_a_model_in_parts_runs_again_in_one_process(answers, tmp_path):
    (first, _, state), (second, batches, nothing) = answers("parts by hand")
    assert second[0] == AT
    assert first is None or first[0] > AT  # by the weights that followed
    assert (second[1].module, second[1].place, nothing) == ("last", "output", {})
    model, recorder = Logs(), taiyi_fx.Recorder(checkpoint_every=1)
    model.load_state_dict(state)
    one = taiyi_fx.instrument(
        model, {nn.Module: ["NonFinite"]}, recorder=recorder, run=tmp_path / "run"
    )
    one(batches[AT]).square().mean().backward()
    one.monitor.track(AT)
    one.monitor.close()
    (found,) = recorder.replays
    assert (found.operation, found.is_exact) == ("log", True)
    assert (found.file, found.line) == (__file__, line_of(Logs.forward, "torch.log"))
    again = load_bad_step(Path(found.saved)).run_on(Logs())
    assert (again.operation, again.line) == (found.operation, found.line)


def test_alone_is_for_several_ranks(monkeypatch):
    with alone():
        torch.zeros(2)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    with alone():
        torch.zeros(2)
        with pytest.raises(MeetsOthers, match="^all_reduce$"):
            torch.ops._c10d_functional.all_reduce(torch.zeros(2), "sum", "0")


def test_a_model_without_a_wrapper_is_called_as_it_is():
    with without_wrapper(None, nn.Linear(2, 2)):
        pass
