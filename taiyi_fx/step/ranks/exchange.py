"""One collective that sends the statistics of all ranks to the one that records; never hangs."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from taiyi_fx.step.ranks.bucket import Key, Layout, Offer, Rows, common_room, misfits, room_of
from taiyi_fx.step.ranks.group import Ranks

Offers = Mapping[Key, Offer]


class Exchange:
    """Exchanges one set of readings, as often as it is due.

    Its layout is agreed on the first time, and anew when a rank has something that has no place
    in it. That rank says so in the vector that it sends, so that all of them know.

    Args:
        ranks: The ranks that exchange.
        offers: The statistics that this rank has the first time.
        is_needed: True if, as far as this rank knows, there is anything to exchange.
    """

    def __init__(self, ranks: Ranks, offers: Offers, *, is_needed: bool) -> None:
        self._ranks = ranks
        self._layout = self._agreed(None, offers, is_needed=is_needed)

    def rows(self, offers: Offers) -> Rows | None:
        """The statistics of all ranks, on the one that records; None elsewhere, or of nothing."""
        layout = self._layout
        if layout is None:
            return None
        fits = all(layout.fits(key, offer) for key, offer in offers.items())
        rows = self._ranks.gather(layout.packed(offers if fits else None))
        if misfits(rows):
            self._layout = layout = self._agreed(layout, offers, is_needed=True)
            assert layout is not None
            rows = self._ranks.gather(layout.packed(_cut(offers, layout)))
        return Rows(layout, rows.cpu()) if self._ranks.is_writer else None

    def _agreed(self, old: Layout | None, offers: Offers, *, is_needed: bool) -> Layout | None:
        """A layout with room for all that any rank has now or had before."""
        states = [offer.state for offer in offers.values() if offer.state is not None]
        types = {part.device.type for state in states for part in state}
        gathered = self._ranks.gather_objects((is_needed, room_of(offers), types))
        if not any(needed for needed, _, _ in gathered):
            return None
        room = common_room([*([old.room] if old else []), *(room for _, room, _ in gathered)])
        return Layout(room, self._device(set().union(*(types for _, _, types in gathered))))

    def _device(self, types: set[str]) -> torch.device:
        """The device of the vectors: that of the statistics, if the group can exchange there."""
        taken = self._ranks.device_types
        return torch.device(next((t for t in sorted(types, reverse=True) if t in taken), taken[0]))


def _cut(offers: Offers, layout: Layout) -> Offers:
    """The offers, with failures in place of those whose number of parts no other rank has."""
    return {k: o if layout.fits(k, o) else Offer(None) for k, o in offers.items()}
