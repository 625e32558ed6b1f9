"""The gate at which ranks meet before an exchange, so that none waits for another in vain.

A collective that one rank does not join hangs the others, until torch ends the training. So ranks
meet by the store first, through which torch.distributed itself makes groups: each leaves a text
there, the first one decides on what all of them left, and all read its decision. Waiting there has
an end, and nothing of the training's own waits behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from torch import distributed as dist

Decide = Callable[[list[Any]], Any]

PATIENCE = timedelta(minutes=5)
"""So long a rank waits for others; or half of torch's own time-out, if that is shorter."""


class NotJoined(Exception):
    """Ranks are not joined any longer; the text says why."""


class Gate:
    """The meetings of some ranks, one after another.

    Args:
        store: The `torch.distributed.Store` that all of them have.
        name: The gate's name in it, the same on all of them and nobody else's.
        members: The ranks; the first one decides.
        rank: This one.

    Attributes:
        ended: Why the ranks meet no longer; None while they do. May be set, on all of them.
    """

    def __init__(self, store: Any, name: str, members: Sequence[int], rank: int) -> None:
        # By a connection of its own, so that torch's requests don't wait for ours; not before 2.8.
        own = getattr(store, "clone", lambda: store)()
        self._store = dist.distributed_c10d.PrefixStore(name, own)
        self._members = members
        self._rank = rank
        self._patience = min(PATIENCE, store.timeout / 2)
        self._round = 0
        self.ended: str | None = None

    def decision(self, mine: Any, decide: Decide) -> Any:
        """The first rank's decision on what all of them have; all call it together.

        Args:
            mine: What this rank has, of what JSON can hold.
            decide: Takes what all have, in their order, to the decision, which JSON can hold too.

        Raises:
            NotJoined: A rank did not come in time, or the decision was to end; once that is so,
                at each later call too, at once.
        """
        if self.ended is not None:
            raise NotJoined(self.ended)
        try:
            verdict = self._verdict(mine, decide)
        except RuntimeError as error:  # of the store: the process that holds it may have ended
            shown = str(error).partition("\n")[0]
            verdict = {"ended": f"the ranks' store cannot be reached: {shown}"}
        if "ended" in verdict:
            self.ended = verdict["ended"]
            raise NotJoined(self.ended)
        return verdict["decision"]

    def _verdict(self, mine: Any, decide: Decide) -> dict[str, Any]:
        self._round += 1
        key = self._key("verdict")
        self._store.set(self._key(self._rank), json.dumps(mine))
        if self._rank != self._members[0]:
            verdict = None if self._is_there([key]) else self._absence()
        elif self._store.check([key]):
            verdict = None  # that of one who waited in vain
        else:
            verdict = self._decided(decide)
        if verdict is not None:
            # Whoever is first decides, as a rank's patience may end while another comes.
            self._store.compare_set(key, "", json.dumps(verdict))
        found = json.loads(self._store.get(key))
        if "ended" not in found:  # else the first rank may still be about to read it
            self._store.delete_key(self._key(self._rank))
        return found

    def _decided(self, decide: Decide) -> dict[str, Any]:
        keys = [self._key(rank) for rank in self._members]
        if not self._is_there(keys):
            return self._absence()
        rows = [json.loads(row) for row in self._store.multi_get(keys)]
        # All are here, so all have read the last decision.
        self._store.delete_key(self._key("verdict", self._round - 1))
        try:
            return {"decision": decide(rows)}
        except NotJoined as why:
            return {"ended": str(why)}

    def _is_there(self, keys: list[str]) -> bool:
        try:
            self._store.wait(keys, self._patience)
        except RuntimeError:  # a time-out, of another class by the kind of store
            return self._store.check(keys)
        return True

    def _absence(self) -> dict[str, Any]:
        absent = [rank for rank in self._members if not self._store.check([self._key(rank)])]
        seconds = self._patience.total_seconds()
        return {
            "ended": f"{named(absent or self._members[:1])} did not call track within {seconds:g} "
            "s: call it on all ranks with the same steps, or give process_group=None"
        }

    def _key(self, of: int | str, number: int | None = None) -> str:
        return f"{self._round if number is None else number}/{of}"


def named(ranks: Sequence[int]) -> str:
    """Some ranks in words."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"the ranks {list(ranks)}"
