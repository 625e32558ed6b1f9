"""Targets of a loss that are what the model is given, at the same place or some places later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taiyi_fx.findings.facts.autograd import Uses, name_of, saved_by
from taiyi_fx.findings.facts.squashed import OF_LOGARITHMS

_TABLE = "Embedding"
_FEW = 4
"""Targets that may all be among the inputs by chance."""
_USUAL, _UNUSUAL = (0, 1), (2, 3)
"""Places between a token and its target: the same or the next one; and one shift too many."""
_OF_TEXTS = 2
"""Axes of indices: texts, and their places."""
_ENOUGH = 16
"""Targets that are not all tokens some places later by chance."""


def copied(uses: Uses) -> str:
    """The embedding whose indices are the targets of the loss; empty if there is none.

    Args:
        uses: The functions that made the loss.
    """
    return _copied(uses)[0]


def shifted(uses: Uses) -> tuple[str, int] | None:
    """The embedding whose indices are the targets some places later, and how many; or None."""
    return _copied(uses)[1]


def _copied(uses: Uses) -> tuple[str, tuple[str, int] | None]:
    """The embedding whose indices are the targets of the loss, one for one or some places later.

    None where another embedding is given the token before each target, as that of a decoder is,
    and after a backward, which frees what autograd has saved.
    """
    losses = [x for x in uses.nodes if name_of(x) in OF_LOGARITHMS]
    tables = [x for x in uses.nodes if name_of(x) == _TABLE]
    targets = saved_by(losses[0], "target") if len(losses) == 1 else None
    given = [(x, ids) for x in tables if (ids := saved_by(x, "indices")) is not None]
    if targets is None or not tables or len(given) < len(tables):
        return "", None
    targets = targets.flatten()
    same = _same(targets, given)
    if same is not None:
        return uses.owner(same), None
    shifts = [(x, ids, by) for x, ids in given if ids.ndim == 2 for by in _shifts(targets, ids)]
    if any(by == 1 and not _begins(targets, ids) for _, ids, by in shifts):
        return "", None  # what comes first may be seen by all places, as the prefix of an answer
    if len(shifts) != 1 or not shifts[0][2]:
        return "", None
    ((table, _, by),) = shifts
    return "", (uses.owner(table), by)


def _same(targets: Any, given: Sequence[tuple[Any, Any]]) -> Any:
    alike = [(x, indices) for x, indices in given if indices.numel() == targets.numel()]
    is_target = targets >= 0  # others are left out of the loss
    varies = len(targets) >= _FEW and bool((targets != targets[0]).any())
    # Those that count up are pairs of a batch, as long as the texts that have as many places.
    varies = varies and not bool((targets.diff() == 1).all())
    are_same = [bool(((ids.flatten() == targets) | ~is_target).all()) for _, ids in alike]
    same = [x for (x, _), is_same in zip(alike, are_same, strict=True) if is_same]
    others = [one for one, is_same in zip(alike, are_same, strict=True) if not is_same]
    is_told = any(ids.ndim != _OF_TEXTS or 1 in _shifts(targets, ids) for _, ids in others)
    return same[0] if same and varies and not is_told else None


def _shifts(targets: Any, indices: Any) -> list[int]:
    """The numbers of places after which the indices of sequences are the targets.

    Several where all that comes is alike.
    """
    samples, _ = indices.shape
    length = len(targets) // max(1, samples)
    if samples * length != len(targets):
        return []
    of_places = targets.view(samples, length)
    return [by for by in (*_USUAL, *_UNUSUAL) if _are_later(of_places, indices, by)]


def _begins(targets: Any, indices: Any) -> bool:
    """True if the first place of each sequence has a target, and is not left out of the loss."""
    return bool((targets.view(len(indices), -1)[:, 0] >= 0).all())


def _are_later(targets: Any, indices: Any, by: int) -> bool:
    """True if the targets are the indices so many places later, as far as there are both."""
    count = min(targets.shape[1], indices.shape[1] - by)
    there, here = targets[:, :count], indices[:, by : by + count]
    is_target = there >= 0  # others are left out of the loss
    is_enough = count > 0 and int(is_target.sum()) >= _ENOUGH
    return is_enough and bool(((there == here) | ~is_target).all())
