"""One update of the optimizer, which moves what has a gradient, and hardly what has none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taiyi_fx.findings.finding import Finding
from taiyi_fx.step_checks.kinds import DECAYED_ROWS, UPDATES_LOST
from taiyi_fx.step_checks.optimizers import copies_of, refuse_low_rates
from taiyi_fx.step_checks.trial import Trial, Update

_HALVES = (torch.float16, torch.bfloat16)
_MOSTLY = 0.8
"""The share of elements with a gradient that stay as they are, from which on little is learnt."""
_AS_FAR = 0.5
"""The part of the move of rows with a gradient, from which on others move as far."""
_SOON = 1e-4
"""The part of itself that a row loses at an update, and so the one in so many updates."""


def update_findings(trial: Trial, optimizers: Sequence[Optimizer]) -> Iterator[Finding]:
    """Elements that the first update leaves as they are, and rows that it moves for no reason.

    Raises:
        Untried: The learning rate is not what it will be.
    """
    refuse_low_rates(optimizers)
    updates = trial.update(copies_of(optimizers, trial.copies))
    yield from _lost([one for one in updates.values() if one.before.dtype in _HALVES])
    decayed: list[Finding] = []
    for name, update in updates.items():
        module, _, _ = name.rpartition(".")
        if isinstance(trial.models[""].get_submodule(module), nn.Embedding):
            decayed += _decayed(name, module, update)
    if decayed:
        yield replace(decayed[0], consequences=tuple(decayed[1:]))


def _lost(updates: Sequence[Update]) -> Iterator[Finding]:
    """Steps that are too small for numbers of half precision."""
    pulled = [one.gradient.to_dense() != 0 for one in updates]
    still = [one.after == one.before for one in updates]
    count = sum(int(x.sum()) for x in pulled)
    lost = sum(int((x & y).sum()) for x, y in zip(pulled, still, strict=True))
    if not count or lost < _MOSTLY * count:
        return
    kinds = " and ".join(sorted({str(one.before.dtype).removeprefix("torch.") for one in updates}))
    text = (
        f"the first update leaves {lost / count:.0%} of the elements in {kinds} exactly as they "
        "are, though they have a gradient: it is too small for their format, which rounds it away"
    )
    yield UPDATES_LOST.of("", lost / count, text, f"below {_MOSTLY:.0%}")


class _Rows(NamedTuple):
    """Rows of a table: how many, how far they move, and what part of themselves they lose."""

    number: int
    move: float
    loss: float


def _rows(update: Update, chosen: Tensor) -> _Rows:
    before, after = update.before[chosen].double(), update.after[chosen].double()
    size = before.norm().item()
    loss = (size - after.norm().item()) / size if size else 0.0
    number = int(chosen.sum())
    move = (after - before).norm().item() / math.sqrt(max(before.numel(), 1))
    return _Rows(number, move, loss)


def _decayed(name: str, module: str, update: Update) -> Iterator[Finding]:
    """Entries of an embedding that the batch does not use, which move as far as those it uses."""
    if update.gradient.is_sparse:
        return  # whoever asks for that has the others left alone
    is_used = (update.gradient != 0).flatten(1).any(1)
    used, others = _rows(update, is_used), _rows(update, ~is_used)
    if not used.number or others.move < _AS_FAR * used.move or others.loss < _SOON:
        return
    text = (
        f"the first update moves the {others.number} rows of {name!r} that the batch does not use "
        f"as far as the {used.number} that it uses, towards 0: each loses {others.loss:.2g} of its "
        f"size, and is gone in {1 / others.loss:.0f} updates without it"
    )
    yield DECAYED_ROWS.of(module, others.move, text, "next to nothing")
