"""The data: a teacher's classes, digits, text of Python's own help, sequences and a ring."""

from __future__ import annotations

import math
from functools import cache
from pydoc_data import topics

import torch
from sklearn.datasets import load_digits
from torch import Tensor

Batch = tuple[Tensor, Tensor]


def rows(step: int, size: int = 64) -> Batch:
    """Normal rows of 16 features, and the classes that a teacher gives them."""
    x = torch.randn(size, 16, generator=_seeded(step))
    return x, (x @ _teacher()).argmax(1)


def images(step: int, size: int = 64) -> Batch:
    """Digits of (size, 1, 8, 8), standardised, and their classes."""
    x, y = _digits()
    chosen = torch.randint(len(x), (size,), generator=_seeded(step))
    return x[chosen], y[chosen]


def text(step: int, size: int = 8) -> Batch:
    """Characters of (size, 32), and those that follow."""
    every = _characters()
    starts = torch.randint(len(every) - 33, (size, 1), generator=_seeded(step))
    ids = every[starts + torch.arange(33)]
    return ids[:, :-1], ids[:, 1:]


def sequences(step: int, size: int = 64) -> Batch:
    """Tokens of (size, 8), whose class is told by the first."""
    ids = torch.randint(16, (size, 8), generator=_seeded(step))
    return ids, ids[:, 0] % 4


def ring(step: int, size: int = 64) -> Batch:
    """Noise of (size, 4) for a generator, and points of a circle."""
    generator = _seeded(step)
    angles = torch.rand(size, generator=generator) * 2 * math.pi
    noise = torch.randn(size, 4, generator=generator)
    points = torch.stack([angles.cos(), angles.sin()], 1)
    return noise, points + 0.05 * torch.randn(size, 2, generator=generator)


def _seeded(step: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 + step)


@cache
def _teacher() -> Tensor:
    return torch.randn(16, 5, generator=torch.Generator().manual_seed(0))


@cache
def _digits() -> Batch:
    x, y = load_digits(return_X_y=True)
    x = torch.tensor(x, dtype=torch.float32).view(-1, 1, 8, 8)
    return (x - x.mean()) / x.std(), torch.tensor(y)


@cache
def _characters() -> Tensor:
    every = "".join(topics.topics.values()).encode("ascii", "replace")
    return torch.frombuffer(bytearray(every), dtype=torch.uint8).long()
