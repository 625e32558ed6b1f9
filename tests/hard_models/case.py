"""What a hard case is, and the small modules that many of them are made of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

D = 4
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """A model to build, with random weights, and the arguments of a batch of n samples."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int], Arguments]

    def __repr__(self) -> str:
        return self.name


_CASES: list[Case] = []


def cases() -> list[Case]:
    """All of them."""
    return list(_CASES)


def rows(n: int) -> Arguments:
    return (torch.randn(n, D),), {}


def sequences(n: int) -> Arguments:
    return (torch.randn(n, 3, D),), {}


def images(n: int) -> Arguments:
    return (torch.randn(n, 2, 8, 8),), {}


def tokens(n: int) -> Arguments:
    return (torch.randint(10, (n, 3)),), {}


def case(name: str, inputs: Callable[[int], Arguments] = rows) -> Callable[[Any], Any]:
    """Adds a class of models, or a function that builds one."""

    def add(build: Any) -> Any:
        _CASES.append(Case(f"hard/{name}", build, inputs))
        return build

    return add


def quietly(function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives that torch would rather see replaced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


def linear() -> nn.Linear:
    return nn.Linear(D, D)


def block() -> nn.Sequential:
    return nn.Sequential(nn.Linear(D, D), nn.ReLU(inplace=True), nn.Linear(D, D))


class TwoLayers(nn.Module):
    """What many models below start from."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = linear(), linear()

    def forward(self, x: Any) -> Any:
        return self.last(torch.tanh(self.first(x)))


class Noisy(nn.Linear):
    """A layer that shows in what mode it is."""

    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, self.training)
