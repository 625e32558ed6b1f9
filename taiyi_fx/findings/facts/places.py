"""The places of modules in the order of execution, which need not be that of their definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from taiyi_fx.findings.facts.watched import role_of

_Key: TypeAlias = tuple[tuple[int, int], ...]


def in_order(modules: Iterable[str], shown: Sequence[str]) -> list[str]:
    """Modules in the order of execution, each behind the one around it.

    Args:
        modules: Their names, in the order of definition.
        shown: Names of modules in the order of execution, of a run of identical modules the first
            alone: what is within the others is executed as what is within that one.
    """
    names = [*modules]
    return sorted(names, key=_Order(shown, names).key) if shown else names


class _Order:
    """The order of what is within each module, by the module's name and by its role."""

    def __init__(self, shown: Sequence[str], names: Sequence[str]) -> None:
        self._within: dict[str, dict[str, int]] = {}
        for parent, part in (place for name in shown for place in _places(name)):
            for around in {parent, role_of(parent)}:
                parts = self._within.setdefault(around, {})
                parts.setdefault(part, len(parts))
        self._defined: dict[tuple[str, str], int] = {}
        for place in (place for name in names for place in _places(name)):
            self._defined.setdefault(place, len(self._defined))

    def key(self, name: str) -> _Key:
        """The places of a module, and of those around it, each within the one around that."""
        return tuple(self._place(parent, part) for parent, part in _places(name))

    def _place(self, parent: str, part: str) -> tuple[int, int]:
        """The place of a part; where none is known, it is last, as it was defined."""
        for parts in (self._within.get(parent, {}), self._within.get(role_of(parent), {})):
            if part in parts:
                return parts[part], 0
            known = [other for other in parts if other.isdecimal() and part.isdecimal()]
            before = [number for number in known if int(number) < int(part)]
            if before:
                return parts[max(before, key=int)], int(part)
        return len(self._within.get(parent, {})), self._defined[parent, part]


def _places(name: str) -> Iterator[tuple[str, str]]:
    """The parts of a name, each with the name of what it is within."""
    parts = name.split(".") if name else []
    return ((".".join(parts[:depth]), part) for depth, part in enumerate(parts))
