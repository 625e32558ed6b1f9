"""A small model, its data, and how they are trained by one process or by several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from taiyi_fx.passes.probes import modes

Batch = tuple[Tensor, Tensor]
Recorded = dict[tuple[str, str, int], Any]


class Small(nn.Module):
    """Something of each: indices, a convolution, rows of samples and of positions."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(11, 6)
        self.conv = nn.Conv1d(6, 8, 3, padding=1)
        self.norm = nn.LayerNorm(8)
        self.act = nn.ReLU()
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        h = self.conv(self.emb(x).transpose(1, 2)).transpose(1, 2)
        return self.fc(self.act(self.norm(h)).mean(1))


def small() -> Small:
    # In float64: what is compared is what joining does, not the rounding of other batch sizes.
    torch.manual_seed(0)
    return Small().double()


def batches(steps: int = 3, n: int = 8) -> list[Batch]:
    g = torch.Generator().manual_seed(3)
    return [
        (torch.randint(11, (n, 5), generator=g), torch.randint(3, (n,), generator=g))
        for _ in range(steps)
    ]


def share(data: Sequence[Batch], rank: int, ranks: int) -> list[Batch]:
    return [(x.chunk(ranks)[rank], y.chunk(ranks)[rank]) for x, y in data]


def train(model, monitor, data: Sequence[Batch], start: int = 0) -> Recorded:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(data, start):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        monitor.track(step)
        optimizer.step()
    return recorded(monitor)


def recorded(monitor) -> Recorded:
    return {
        (module, quantity, step): value
        for module, of_module in monitor.get_output().items()
        for quantity, values in of_module.items()
        for step, value in values.items()
    }


def differences(found: Recorded, expected: Recorded, tolerance: float = 1e-6) -> dict[Any, Any]:
    """Where two differ; of a vector, by its norm."""
    wrong = {key: (found.get(key), expected.get(key)) for key in found.keys() ^ expected.keys()}
    for key in found.keys() & expected.keys():
        a, b = (torch.as_tensor(of[key]).to(torch.float64) for of in (found, expected))
        same = a.shape == b.shape and torch.equal(a.isnan(), b.isnan())
        a, b = a.nan_to_num(), b.nan_to_num()
        if not same or (a - b).norm() > max(tolerance * b.norm().item(), 1e-14):
            wrong[key] = a, b
    return wrong


class Collectives(TorchDispatchMode):
    """Which collectives run in the body, ours too, which no mode is shown otherwise."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []
        self.shown = mock.patch.object(modes, "_len_torch_dispatch_stack", return_value=0)

    def __enter__(self):
        self.shown.start()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.shown.stop()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace in ("c10d", "_c10d_functional"):
            self.names.append(function.__name__)
        return function(*args, **(kwargs or {}))
