"""One side: a program's model, trained step by step, and what comes of it."""

from __future__ import annotations

import collections
import copy
import functools
import random
import types
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.random_programs.load import nameless
from tests.random_programs.program import Step
from tests.random_programs.snapshot import Snapshot, numpy_state, snapshot

RATE = 0.01
Streams = tuple[bytes, Any, Hashable]


class Side:
    """A model and the module that it is from.

    Attributes:
        model: What is called, looked at and changed.
        track: Called after backward.
    """

    def __init__(self, module: ModuleType, model: nn.Module) -> None:
        self.module, self.model = module, model
        self.track: Callable[[int], Any] = lambda step: None

    def seen(self, **more: Any) -> Snapshot:
        """All that can be seen of it."""
        return snapshot({**more, "model": self.model}, self.module)

    def go(self, number: int, step: Step) -> Snapshot:
        """Goes through a step, and says all that came of it."""
        found: dict[str, Any] = {}
        for i, change in enumerate(c for c in step.changes if not c.is_shared):
            with _kept_error(found, f"change {i}"):
                exec(_compiled(change.text), self._names())
        with _own_modes(found):
            self._forwards(number, step, found)
        with torch.no_grad():
            for p in self.model.parameters():
                if p.grad is not None and not p.is_inference():
                    p.sub_(RATE * p.grad)
        return self.seen(**found)

    def _names(self) -> dict[str, Any]:
        tools = {"torch": torch, "nn": nn, "F": F, "np": np, "random": random, "types": types}
        tools |= {"collections": collections, "copy": copy}
        ours = {"functools": functools, "scaled": scaled, "subclass": subclass}
        return {"model": self.model, "G": self.module, **tools, **ours}

    def _forwards(self, number: int, step: Step, found: dict[str, Any]) -> None:
        with suppress(AttributeError):
            self.model.zero_grad()
        for time in range(2 if "twice" in step.ways else 1):
            with _kept_error(found, f"forward {time}"):
                self._forward(batch(number, time, step), step, found, f"{time}")
        with _kept_error(found, "track"):
            self.track(number)
        if "evaluation" in step.ways:
            self.model.eval()
            with _kept_error(found, "evaluation"), torch.no_grad():
                found["evaluated"] = self.model(batch(number, 9, step))
            self.model.train()

    def _forward(self, x: Tensor, step: Step, found: dict[str, Any], time: str) -> None:
        x = x.requires_grad_("input's gradient" in step.ways)
        found[f"input {time}"] = x
        given = x * 1 if "input used" in step.ways else x
        mask = (torch.ones(4) * 0.5,) if step.masked else ()
        with torch.set_grad_enabled("no_grad" not in step.ways):
            y = self.model(given, *mask)
        found[f"output {time}"] = y
        loss = sum((t.float().square().sum() for t in tensors(y)), torch.zeros(()))
        loss = loss + sum((t.sum() for t in self._aux()), torch.zeros(()))
        found[f"loss {time}"] = loss
        if loss.requires_grad:
            loss.backward()

    def _aux(self) -> Iterator[Tensor]:
        """The losses that the model and its module kept, which are dropped there."""
        spaces = [vars(m) for m in self.model.modules()] + [vars(self.module)]
        for space in spaces:
            for name in [k for k in space if k.startswith(("aux_", "AUX_"))]:
                yield from tensors(space[name])
                if isinstance(space[name], list):
                    space[name].clear()


def tensors(value: Any) -> Iterator[Tensor]:
    """The floating tensors in what a model returned."""
    if isinstance(value, Tensor):
        yield from [value] if value.is_floating_point() else []
    elif isinstance(value, (list, tuple, Mapping)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from tensors(part)


def batch(number: int, time: int, step: Step) -> Tensor:
    """The batch of a step, the same for both sides."""
    generator = torch.Generator().manual_seed(100 * number + time)
    return torch.randn(step.batch, 4, generator=generator)


def scaled(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward, or a bound one, whose input is another."""

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        changed = [a * 1.5 if isinstance(a, Tensor) else a for a in args]
        return forward(*changed, **kwargs)

    return run


def subclass(module: nn.Module) -> type:
    """A subclass of a module's class that computes something else."""
    kind = type(module)
    return type(f"Other{kind.__name__}", (kind,), {"forward": scaled(kind.forward)})


def streams() -> Streams:
    """The states of the random streams that all share."""
    return (
        torch.get_rng_state().numpy().tobytes(),
        random.getstate(),
        numpy_state(np.random),
    )


@contextmanager
def _kept_error(found: dict[str, Any], name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, both sides must raise it
        found[f"{name} raised"] = (type(error).__qualname__, nameless(str(error)))


@contextmanager
def _own_modes(found: dict[str, Any]) -> Iterator[None]:
    """Puts back what a forward may leave, after it was taken down."""
    try:
        yield
    finally:
        found["modes"] = (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_dtype())  # fmt: skip
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.set_autocast_enabled("cpu", False)
        torch.clear_autocast_cache()


@functools.lru_cache(1000)
def _compiled(text: str) -> types.CodeType:
    return compile(text, "<change>", "exec")
