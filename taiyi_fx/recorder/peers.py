"""The other ranks: told when one of them writes its last steps, so that all of them do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import distributed as dist

from taiyi_fx.warning import WarnOnce

_KEY = "taiyi_fx/recorder/"
_EACH = 0.5
"""The seconds between two looks, of a tenth of a millisecond each."""


class Told(NamedTuple):
    """A writing of another rank.

    Attributes:
        rank: The rank.
        step: The last of the steps that it wrote.
        reason: The reason.
    """

    rank: int
    step: int
    reason: str


class Peers:
    """Tells other ranks of writings, and is told of theirs, through the store that ranks share.

    A store that cannot be reached is warned of once; then each rank writes for itself.

    Args:
        clock: The time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._looked = clock, -_EACH
        self._seen: int | None = None
        self._awaited: list[int] = []
        self._is_cut_off = False
        self._warn = WarnOnce()

    def tell(self, step: int, reason: str) -> None:
        """Tells the others of a writing."""

        def put(store: Any) -> None:
            number = store.add(f"{_KEY}count", 1)
            store.set(f"{_KEY}{number}", json.dumps([dist.get_rank(), step, reason]))

        self._with_store(put)

    def told(self, *, at_once: bool = False) -> list[Told]:
        """The writings of others since the last look; mostly none, as it looks now and then.

        Args:
            at_once: Look now.
        """
        now = self._clock()
        if not at_once and now - self._looked < _EACH:
            return []
        self._looked = now
        found: list[Told] = []
        self._with_store(lambda store: found.extend(self._read(store)))
        return found

    def _read(self, store: Any) -> list[Told]:
        count: int = store.add(f"{_KEY}count", 0)
        if self._seen is None:
            self._seen = count  # what was told before it began is of another training
        self._awaited += range(self._seen + 1, count + 1)
        self._seen = count
        # One that has a number and no text yet is asked for again; its rank may have ended.
        there = [number for number in self._awaited if store.check([f"{_KEY}{number}"])]
        self._awaited = [number for number in self._awaited if number not in there]
        found = [Told(*json.loads(store.get(f"{_KEY}{number}"))) for number in there]
        return [one for one in found if one.rank != dist.get_rank()]

    def _with_store(self, use: Callable[[Any], None]) -> None:
        if self._is_cut_off or not dist.is_initialized() or dist.get_world_size() == 1:
            return
        try:
            use(dist.distributed_c10d._get_default_store())
        except (RuntimeError, ValueError) as error:  # the process that holds it may have ended
            self._is_cut_off = True
            shown = str(error).partition("\n")[0]
            self._warn.of("store", f"ranks do not write their last steps together: {shown}")
