"""Runs a program on both sides, step by step, up to the first thing that differs."""

from __future__ import annotations

import functools
import random
import re
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch._dynamo  # a checkpoint imports it at its first call, which takes seconds
from torch import nn

from tests.random_programs.limit import TooLong, limited
from tests.random_programs.load import loaded, nameless
from tests.random_programs.program import Entry, Program, Step
from tests.random_programs.sides import Side, scaled, streams
from tests.random_programs.snapshot import Snapshot
from tests.random_programs.watch import Cfg, Watch, instrumented

SECONDS = 10.0
STREAMS = ("torch's random numbers", "random's random numbers", "numpy's random numbers")


@dataclass(frozen=True)
class Difference:
    """The first thing that tells the sides apart.

    Attributes:
        when: ``"instrument"`` or a step.
        what: Its path.
        plain: What it is on the plain side.
        watched: What it is on the other.
    """

    when: str
    what: str
    plain: Hashable
    watched: Hashable

    @property
    def kind(self) -> str:
        """What differences of one cause mostly have in common."""
        when = re.sub(r"\d+", "#", self.when)
        what = re.sub(r"\d+", "#", self.what)
        what = re.sub(r"^(input|output|loss|evaluated|model|G)\b.*(?<!raised)$", r"\1", what)
        if what.endswith("raised"):
            error = self.watched if self.plain is None else self.plain
            side = (
                "watched only"
                if self.plain is None
                else "plain"
                if self.watched is None
                else "both"
            )
            what += f" ({side}): {re.sub(r'[0-9]+|_[0-9]+', '#', str(error))[:90]}"
        elif is_last_bits(self.plain, self.watched):
            what += " (last bits)"
        return f"{when}: {what}"

    def __str__(self) -> str:
        return f"{self.when}: {self.what}\n  plain:   {shown(self.plain)}\n  watched: {shown(self.watched)}"


class Unfit(Exception):
    """The program does not even make a model."""


def shown(token: Hashable) -> str:
    """What was seen, to be read."""
    if isinstance(token, tuple) and token and isinstance(token[-1], bytes):
        return f"{token[:-1]} {_values(token)}"[:400]
    return str(token)[:200]


def is_last_bits(one: Hashable, other: Hashable) -> bool:
    """Whether two tensors differ in rounding alone."""
    are = all(isinstance(t, tuple) and t and isinstance(t[-1], bytes) for t in (one, other))
    if not are or one[:-1] != other[:-1]:  # pyright: ignore[reportIndexIssue]
        return False
    a, b = _values(one), _values(other)
    return a is not None and b is not None and np.allclose(a, b, rtol=1e-5, atol=1e-7)


def _values(token: Any) -> Any:
    dtypes = {"torch.float32": "f4", "torch.float64": "f8", "torch.int64": "i8"}
    dtype = dtypes.get(token[1])
    return None if dtype is None else np.frombuffer(token[-1], dtype)


def run(program: Program, watch: Watch = instrumented) -> Difference | None:
    """Trains both sides; what differs first, if anything does."""
    try:
        with limited(SECONDS):
            return _run(program, watch)
    except TooLong as error:
        return Difference("whole run", "time", None, str(error))


def _run(program: Program, watch: Watch) -> Difference | None:
    with warnings.catch_warnings(), _as_it_was(), ExitStack() as patches:
        warnings.simplefilter("ignore")
        try:
            seed = functools.partial(_seed, program.seed)
            modules = patches.enter_context(loaded(program.source(), seed))
            sides = tuple(Side(m, _made(m, seed)) for m in modules)
        except Exception as error:
            raise Unfit(f"{type(error).__name__}: {error}") from error
        found = _watch(*sides, program, watch)
        for number, step in enumerate(program.steps):
            found = found or _step(*sides, number, step, patches)
        return found


def _made(module: Any, seed: Callable[[], None]) -> nn.Module:
    seed()
    return module.make()


def _watch(plain: Side, watched: Side, program: Program, watch: Watch) -> Difference | None:
    before, drawn = watched.seen(), streams()
    if found := first_difference("instrument", plain.seen(), before):
        raise AssertionError(f"the sides differ before anything is watched: {found}")
    model = watched.model
    try:
        made = watch(model, configuration(program.entries, plain.model))
    except Exception as error:  # noqa: BLE001 - it is the finding
        return Difference("instrument", "instrument raised", None, _told(error))
    return (
        first_difference("instrument", dict(zip(STREAMS, drawn, strict=True)), dict(zip(STREAMS, streams(), strict=True)))
        or first_difference("instrument", before, watched.seen())
        or _taken(watched, made, before)
    )  # fmt: skip


def _taken(watched: Side, made: Any, before: Snapshot) -> Difference | None:
    """What is watched stands in the model's place from here on."""
    watched.model, watched.track = made.model, made.track
    found = first_difference("instrument", before, watched.seen())
    return found and Difference("instrumented", found.what, found.plain, found.watched)


def _told(error: Exception) -> tuple[str, str]:
    return type(error).__qualname__, nameless(str(error))


def _step(
    plain: Side, watched: Side, number: int, step: Step, patches: ExitStack
) -> Difference | None:
    for change in step.changes:
        if change.is_shared:
            patches.enter_context(_patch(change.text))
    start = (torch.get_rng_state(), random.getstate(), np.random.get_state())
    found = [_gone(plain, number, step)]
    torch.set_rng_state(start[0])
    random.setstate(start[1])
    np.random.set_state(start[2])
    found.append(_gone(watched, number, step))
    return first_difference(f"step {number}", *found)


def _gone(side: Side, number: int, step: Step) -> Snapshot:
    found = side.go(number, step)
    return {**found, **dict(zip(STREAMS, streams(), strict=True))}


def first_difference(when: str, plain: Snapshot, watched: Snapshot) -> Difference | None:
    """What differs first, but for the forwards that stand on what is watched."""
    if plain == watched:
        return None
    paths = sorted(dict.fromkeys((*plain, *watched)), key=lambda p: "raised" not in p)
    for path in paths:
        ours = path.endswith(".forward") and "watched" in (plain.get(path), watched.get(path))
        if plain.get(path) != watched.get(path) and not ours:
            return Difference(when, path, plain.get(path), watched.get(path))
    return None


def configuration(entries: tuple[Entry, ...], model: nn.Module) -> Cfg:
    """A configuration of the entries that fit."""
    names = {name for name, _ in model.named_modules()}
    kinds = {type(m).__name__ for m in model.modules()}
    cfg: dict[Any, list[list[str]]] = {}
    for entry in entries:
        key = _KEYS.get(entry.key, entry.key)
        if callable(key) or key in names or key in kinds:
            cfg.setdefault(key, []).append([entry.quantity, entry.schedule])
    return cfg or {nn.Module: [["OutputRMS", "every(1)"]]}


def _is_leaf(name: str, module: nn.Module) -> bool:
    return next(module.children(), None) is None


_KEYS: dict[str, Any] = {"nn.Module": nn.Module, "leaves": _is_leaf}


def _patch(text: str) -> Any:
    path = text.removeprefix("patch('").removesuffix("')")
    owner, _, name = path.rpartition(".")
    of: Any = torch
    for part in owner.split(".")[1:]:
        of = getattr(of, part)
    return mock.patch.object(of, name, scaled(getattr(of, name)))


def _seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


@contextmanager
def _as_it_was() -> Iterator[None]:
    """Puts the random streams of the process back."""
    kept = (torch.get_rng_state(), random.getstate(), np.random.get_state())
    try:
        yield
    finally:
        torch.set_rng_state(kept[0])
        random.setstate(kept[1])
        np.random.set_state(kept[2])
