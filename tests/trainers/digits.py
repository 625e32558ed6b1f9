"""Real digits, a network for them in float64, and the plain loop that trainers are compared with."""

from __future__ import annotations

import copy
import importlib.util
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import taiyi_fx
from benchmarks.zoo_models.vision_operators import define_vision_operators
from taiyi_fx.writers import Batch, RunInfo

if importlib.util.find_spec("torchvision"):  # which frameworks import where it is there
    define_vision_operators()

CFG = {
    "Linear": ["InputSndNorm", ["OutputGradSndNorm", "linear(2, 1)"], ["WeightGradNorm", "every(3)"]],
    "Conv2d": [["OutputGradRMS", "every(2)"], ["InputCovMaxEig", "linear(2, 1)"], "WeightNorm"],
}  # fmt: skip
BATCH = 8


class Net(nn.Module):
    def __init__(self, drop: float):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.act, self.drop, self.fc = nn.ReLU(inplace=True), nn.Dropout(drop), nn.Linear(144, 10)

    def forward(self, x):
        return self.fc(self.drop(self.act(self.norm(self.conv(x)))).flatten(1))


def net(drop: float = 0.1) -> Net:
    torch.manual_seed(0)
    return Net(drop).double()


def watched(model: nn.Module) -> Any:
    return taiyi_fx.instrument(copy.deepcopy(model), CFG)


def digits(batches: int) -> TensorDataset:
    images, labels = load_digits(return_X_y=True)
    n = batches * BATCH
    return TensorDataset(torch.tensor(images[:n] / 16).reshape(-1, 1, 8, 8), torch.tensor(labels[:n]))  # fmt: skip


def loader(batches: int) -> DataLoader:
    return DataLoader(digits(batches), BATCH)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train_plainly(model: Any, batches: int, accumulate: int) -> list[float]:
    """One epoch of an instrumented model; returns the losses."""
    torch.manual_seed(1)
    optimizer, losses = sgd(model), []
    for i, (x, y) in enumerate(loader(batches), 1):
        loss = F.cross_entropy(model(x), y)
        (loss / accumulate).backward()
        losses.append(loss.item())
        if i % accumulate == 0:
            model.monitor.track(i // accumulate - 1)
            optimizer.step()
            optimizer.zero_grad()
    return losses


def values(monitor: taiyi_fx.Monitor, start: int = 0) -> dict[tuple[int, str, str], Any]:
    """All records of quantities from a step on."""
    return {
        (r.step, r.module, r.quantity): r.value
        for r in monitor.records
        if r.module and r.step >= start
    }


def tensors(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def assert_same_tensors(a: nn.Module, b: nn.Module) -> None:
    for x, y in zip(tensors(a), tensors(b), strict=True):
        assert torch.equal(x, y)


class Noting:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.run: RunInfo | None = None
        self.steps: list[int] = []
        self.flushes = 0

    def open(self, run: RunInfo) -> None:
        assert self.run is None
        self.run = run

    def write(self, batch: Batch) -> None:
        self.steps += [record.step for record in batch]

    def flush(self) -> None:
        self.flushes += 1

    def close(self) -> None:
        pass


def broken(model: Any) -> Any:
    """An instrumented model with a parameter that is not finite, which is to be stopped."""
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] = torch.nan
    model.monitor.on_finding = "stop"
    return model


def assert_as_in_a_loop(trained, plain, looped):
    """Five steps: bits of the plain model that was trained so, records of a plain loop."""
    assert_same_tensors(trained, plain)
    expected = values(looped.monitor)
    assert {step for step, _, _ in expected} == set(range(5))
    assert values(trained.monitor) == expected


def assert_goes_on(second, whole, writer):
    """The second of two epochs of three steps is as if there had been no pause."""
    assert_same_tensors(second, whole)
    assert values(second.monitor) == values(whole.monitor, start=3)
    assert {epoch.epoch for epoch in second.monitor.epochs} == {1}
    assert writer.run.start_step == min(writer.steps) == 3
    assert writer.flushes
