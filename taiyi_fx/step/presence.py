"""Which modules are still part of the model: code may replace some of them while it trains."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection, Mapping

from torch import nn

from taiyi_fx.passes.module_tree import modules_of

GONE = (
    "the module is no longer part of the model: to read what stands in its place, call instrument "
    "again"
)
"""The reason for values of a module that was replaced or taken out."""

_attributes_of = operator.attrgetter("__dict__")  # which runs no __getattr__ of the user's
_parts_of = operator.itemgetter("_modules")


class Presence:
    """Tells which of a model's modules are no longer in it.

    Args:
        modules: The model's, by the names that they had.
    """

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        self._modules = modules
        self._gone: Collection[str] = ()
        self._look()

    def gone(self) -> Collection[str]:
        """The names of those that are not in the model any more."""
        # Asked at each step that is due: nearly always each is where it was.
        held = self._held_now()
        if len(held) != len(self._held) or not all(map(operator.is_, held, self._held)):
            self._look()
        return self._gone

    def _look(self) -> None:
        """Notes which modules are in the model now, those that came later too."""
        present = [*modules_of(self._modules[""])]
        self._holders = [m for m in present if isinstance(vars(m).get("_modules"), dict)]
        self._held = self._held_now()
        met = {id(module) for module in present}
        self._gone = {name for name, module in self._modules.items() if id(module) not in met}

    def _held_now(self) -> list[nn.Module | None]:
        """All parts of those that hold some; none if one that left the model was emptied."""
        parts = map(_parts_of, map(_attributes_of, self._holders))
        try:
            return [*itertools.chain.from_iterable(map(dict.values, parts))]
        except KeyError:
            return []
