"""Batches of items of one kind, each batch in one call; other items are left."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_batches(
    items: Iterable[T],
    kind: Callable[[T], Hashable | None],
    together: Callable[[list[T]], R | None],
    *,
    fewest: int = 2,
) -> tuple[list[tuple[list[T], R]], list[T]]:
    """Batches of items of one kind, each with its result, and the items that are left.

    Args:
        items: Any.
        kind: The key of items that one call can compute; None leaves an item.
        together: Computes a batch. Where it raises or returns None, the batch is left: computing
            each item alone shows which one failed.
        fewest: Smaller batches are left.
    """
    batches: dict[Hashable, list[T]] = {}
    left: list[T] = []
    for item in items:
        its_kind = kind(item)
        (left if its_kind is None else batches.setdefault(its_kind, [])).append(item)
    done: list[tuple[list[T], R]] = []
    for batch in batches.values():
        found = attempted(together, batch) if len(batch) >= fewest else None
        if found is None:
            left += batch
        else:
            done.append((batch, found))
    return done, left


def attempted(together: Callable[[T], R | None], batch: T) -> R | None:
    """The result of a batch; None where its function raises."""
    try:
        return together(batch)
    except Exception:  # noqa: BLE001 - reported by name when each is computed alone
        return None
