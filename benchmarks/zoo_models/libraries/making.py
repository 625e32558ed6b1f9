"""Words for the models of libraries that may not be installed: imported only when built."""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from benchmarks.zoo_models.case import Batch, Case

Maker = Callable[[int], Any]
"""Makes an argument for a number of samples."""


@dataclass(frozen=True)
class New:
    """A call that is yet to be made; arguments may be such calls themselves.

    Attributes:
        path: What to call, such as ``"torch.nn:Linear"``.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
    """

    path: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self) -> Any:
        """Imports what is to be called and calls it."""
        return named(self.path)(*_made(self.args), **_made(self.kwargs))


def new(path: str, *args: Any, **kwargs: Any) -> New:
    """A call of what a path names, such as ``new("torch.nn:Linear", 3, 4)``, yet to be made."""
    return New(path, args, kwargs)


def named(path: str) -> Any:
    """What a path names: a module, a colon and the name in it."""
    module, _, name = path.partition(":")
    return operator.attrgetter(name)(importlib.import_module(module))


def _made(value: Any) -> Any:
    if isinstance(value, New):
        return value()
    if isinstance(value, dict):
        return {key: _made(part) for key, part in value.items()}
    return type(value)(map(_made, value)) if type(value) in (list, tuple) else value


def case(
    name: str, build: Callable[[], nn.Module], *makers: Maker | None, **named_makers: Maker | None
) -> Case:
    """A case of the family, with a maker for each argument of its forward.

    Args:
        name: The package, as pip knows it, and the model.
        build: Makes the model.
        makers: Of the positional arguments.
        named_makers: Of the keyword arguments.
    """
    return Case(f"libraries/{name}", build, functools.partial(_batch, makers, named_makers))


def _batch(
    makers: tuple[Maker | None, ...], named_makers: dict[str, Maker | None], n: int
) -> Batch:
    args = tuple(maker and maker(n) for maker in makers)
    return args, {name: maker and maker(n) for name, maker in named_makers.items()}


def normal(*shape: int) -> Maker:
    """Normally distributed numbers, ``(samples, *shape)``."""
    return lambda n: torch.randn(n, *shape)


def uniform(*shape: int) -> Maker:
    """Numbers between 0 and 1, ``(samples, *shape)``."""
    return lambda n: torch.rand(n, *shape)


def integers(high: int, *shape: int) -> Maker:
    """Integers from 0 up to, not with, ``high``, ``(samples, *shape)``."""
    return lambda n: torch.randint(high, (n, *shape))


def truths(*shape: int) -> Maker:
    """A mask of nothing but true, ``(samples, *shape)``."""
    return lambda n: torch.ones(n, *shape, dtype=torch.bool)


def ones(*shape: int) -> Maker:
    """Ones, ``(samples, *shape)``."""
    return lambda n: torch.ones(n, *shape)


def always(value: Any) -> Maker:
    """The same for any number of samples."""
    return lambda n: value


def images(size: int, channels: int = 3) -> Maker:
    """Square images, ``(samples, channels, size, size)``."""
    return normal(channels, size, size)
