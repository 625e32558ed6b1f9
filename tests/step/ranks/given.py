"""Ranks as threads of one process, which exchange at a barrier instead of a process group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import distributed as dist

from taiyi_fx.step.ranks.bucket import Key, Layout, Offer, Rows, common_room, room_of
from taiyi_fx.step.ranks.cadence import Cadence
from taiyi_fx.step.ranks.gate import Gate


class ThreadRanks:
    """The interface of `Ranks`, for one thread of several; counts the collectives."""

    device_types = ("cpu",)

    def __init__(
        self, place: int, table: list[Any], barrier: threading.Barrier, store: dist.Store
    ) -> None:
        self.place, self.members = place, tuple(range(len(table)))
        self.bringing = frozenset(self.members)
        self.is_writer, self.brings_rows = place == 0, True
        self.gate = Gate(store, "gate", self.members, place)
        self.cadence = Cadence()
        self.collectives: list[str] = []
        self._table, self._barrier = table, barrier

    def gather_objects(self, mine: Any) -> list[Any]:
        self.collectives.append("objects")
        return self._gathered(mine)

    def gather(self, mine: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        self.collectives.append("tensor")
        return torch.stack(self._gathered(mine), out=rows)

    def meet(self) -> None:
        """Waits for the other threads."""
        self._barrier.wait(30)

    def _gathered(self, mine: Any) -> list[Any]:
        self._table[self.place] = mine
        self._barrier.wait(30)
        found = list(self._table)
        self._barrier.wait(30)
        return found


def on_ranks(n: int, check: Callable[[ThreadRanks], Any]) -> list[Any]:
    """Runs a check on each of several ranks at once; gives what each returned."""
    table: list[Any] = [None] * n
    barrier, store = threading.Barrier(n), dist.HashStore()
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(check, [ThreadRanks(i, table, barrier, store) for i in range(n)]))


def exchanged(of_ranks: Sequence[Mapping[Key, Offer]]) -> Rows:
    """What the ranks offer, packed into their vectors and unpacked again."""
    layout = Layout(common_room(map(room_of, of_ranks)), torch.device("cpu"))
    assert all(layout.fits(key, offer) for offers in of_ranks for key, offer in offers.items())
    rows = torch.stack([layout.packed(offers) for offers in of_ranks])
    assert rows.shape[1] == layout.nbytes
    return Rows(layout, rows)
