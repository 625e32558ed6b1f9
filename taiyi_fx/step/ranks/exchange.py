"""One collective that sends the statistics of all ranks to the one that records."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.step.ranks.bucket import Key, Layout, Offer, Rows, common_room, room_of
from taiyi_fx.step.ranks.gate import NotJoined, named
from taiyi_fx.step.ranks.group import Ranks

Offers = Mapping[Key, Offer]

Status = Literal["nothing", "new", "ready", "failed"]


class NotSent(Exception):
    """A rank has nothing to send at a step; the text says why."""


class _Answer(NamedTuple):
    """A rank's announcement before an exchange.

    Attributes:
        step: The step that it tracks.
        due: A digest of what is due there.
        status: "nothing" if, as far as this rank knows, there is nothing to exchange; "new" if it
            has something that has no place in the layout; "failed" if it cannot send anything.
        why: Why not.
        wished: The number of steps for which it wishes the cadence to be raised.
        wishes_end: True if it wishes that training stops.
    """

    step: int
    due: str
    status: Status
    why: str = ""
    wished: int = 0
    wishes_end: bool = False


class Exchange:
    """Exchanges one set of readings, as often as it is due.

    Its layout is agreed on the first time, and anew when a rank has something that has no place
    in it.

    Args:
        ranks: The ranks that exchange.
        due: A digest of what is due, the same on all of them.
        is_needed: True if, as far as this rank knows, there is anything to exchange.
    """

    def __init__(self, ranks: Ranks, due: str, *, is_needed: bool) -> None:
        self._ranks = ranks
        self._due = due
        self._is_needed = is_needed
        self._is_void = False
        self._layout: Layout | None = None

    def rows(self, step: int, offers: Offers) -> Rows | None:
        """The statistics of all ranks, on the one that records; None elsewhere, or of nothing.

        Raises:
            NotSent: A rank could not send its statistics of this step.
            NotJoined: The ranks are not joined any longer.
        """
        if self._is_void:
            return None
        while True:
            status, vectors, why = self._prepared(offers)
            decision = self._met(step, status, why)
            if decision == "nothing":
                self._is_void = True
                return None
            if decision == "ready":
                assert self._layout is not None
                assert vectors is not None
                rows = self._ranks.gather(*vectors)
                return Rows(self._layout, rows.cpu()) if self._ranks.is_writer else None
            self._layout = self._agreed(offers)
            offers = _cut(offers, self._layout)

    def fail(self, step: int, why: str) -> None:
        """Says that this rank has nothing to send at a step, so that the others don't wait."""
        if not self._is_void:
            with suppress(NotSent):
                self._met(step, "failed", why)

    def _prepared(self, offers: Offers) -> tuple[Status, tuple[Tensor, Tensor] | None, str]:
        """The tensors to send, and room for those to receive: made before others rely on it."""
        layout = self._layout
        if layout is None:
            return "new" if self._is_needed else "nothing", None, ""
        if not all(layout.fits(key, offer) for key, offer in offers.items()):
            return "new", None, ""
        try:
            mine = layout.packed(offers)
            return "ready", (mine, mine.new_empty(len(self._ranks.members), len(mine))), ""
        except Exception as error:  # noqa: BLE001 - monitoring never ends a run: reported by name
            return "failed", None, f"{type(error).__name__}: {error}"

    def _met(self, step: int, status: Status, why: str) -> str:
        """The next step of all ranks: "nothing", "new" or "ready"."""
        cadence = self._ranks.cadence
        mine = _Answer(step, self._due, status, why, cadence.wished, cadence.wishes_end)
        decision, why, granted, end = self._ranks.gate.decision(mine, self._decision)
        cadence.grant(granted, end=end)
        if decision == "failed":
            raise NotSent(why)
        return decision

    def _decision(self, answers: list[Any]) -> tuple[str, str, int, bool]:
        every = dict(
            zip(self._ranks.members, (_Answer(*answer) for answer in answers), strict=True)
        )
        wished = max(answer.wished for answer in every.values())
        return *self._next(every), wished, any(answer.wishes_end for answer in every.values())

    def _next(self, every: Mapping[int, _Answer]) -> tuple[str, str]:
        steps = _ranks_of({rank: answer.step for rank, answer in every.items()})
        if len(steps) > 1:
            shown = " and ".join(f"step {step} on {ranks}" for step, ranks in steps.items())
            raise NotJoined(f"track was called for {shown}: call it on all ranks, with one step")
        due = _ranks_of({rank: answer.due for rank, answer in every.items()})
        if len(due) > 1:
            shown = " than on ".join(due.values())
            raise NotJoined(f"at step {min(steps)} other quantities are due on {shown}")
        found = {answer.status for answer in every.values()}
        if "failed" in found:
            failed = {rank: a.why for rank, a in every.items() if a.status == "failed"}
            return "failed", f"{named([*failed])} could not send it: {next(iter(failed.values()))}"
        if len(found) == 1 and "new" not in found:
            return found.pop(), ""
        return "new", ""

    def _agreed(self, offers: Offers) -> Layout:
        """A layout with room for all that any rank has now or had before."""
        states = [offer.state for offer in offers.values() if offer.state is not None]
        types = {part.device.type for state in states for part in state}
        gathered = self._ranks.gather_objects((room_of(offers), types))
        old = [self._layout.room] if self._layout else []
        room = common_room([*old, *(room for room, _ in gathered)])
        return Layout(room, self._device(set().union(*(types for _, types in gathered))))

    def _device(self, types: set[str]) -> torch.device:
        """The device of the vectors: that of the statistics, if the group can exchange there."""
        taken = self._ranks.device_types
        return torch.device(next((t for t in sorted(types, reverse=True) if t in taken), taken[0]))


def _ranks_of(found: Mapping[int, Any]) -> dict[Any, str]:
    """In words, the ranks that have each value."""
    ranks: dict[Any, list[int]] = {}
    for rank, value in found.items():
        ranks.setdefault(value, []).append(rank)
    return {value: named(of) for value, of in ranks.items()}


def _cut(offers: Offers, layout: Layout) -> Offers:
    """The offers, with failures in place of those whose number of parts no other rank has."""
    return {k: o if layout.fits(k, o) else Offer(None) for k, o in offers.items()}
