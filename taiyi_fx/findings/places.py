"""The places of modules in the order of execution, which need not be that of their definition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from taiyi_fx.findings.watched import role_of

_Key: TypeAlias = tuple[tuple[int, int], ...]


def in_order(modules: Iterable[str], shown: Sequence[str]) -> list[str]:
    """Modules in the order of execution, each behind the one around it.

    Args:
        modules: Their names, in the order of definition.
        shown: Names of modules in the order of execution, of a run of identical modules the first
            alone: what is within the others is executed as what is within that one.
    """
    names = [*modules]
    if not shown:
        return names
    order = _Order(shown)
    return [name for _, name in sorted((order.key(name, i), name) for i, name in enumerate(names))]


class _Order:
    """The order of what is within each module, by the module's name and by its role."""

    def __init__(self, shown: Sequence[str]) -> None:
        self._children: dict[str, dict[str, int]] = {}
        for name in shown:
            parts = name.split(".")
            for depth, part in enumerate(parts):
                parent = ".".join(parts[:depth])
                for around in {parent, role_of(parent)}:
                    within = self._children.setdefault(around, {})
                    within.setdefault(part, len(within))

    def key(self, name: str, place: int) -> _Key:
        """What to sort a name by; where no order is known it is the place by definition."""
        parts = name.split(".") if name else []
        return tuple(
            self._of_part(".".join(parts[:depth]), part, place) for depth, part in enumerate(parts)
        )

    def _of_part(self, parent: str, part: str, place: int) -> tuple[int, int]:
        for within in (self._children.get(parent, {}), self._children.get(role_of(parent), {})):
            if part in within:
                return within[part], 0
            before = [other for other in within if other.isdecimal() and part.isdecimal()]
            before = [other for other in before if int(other) < int(part)]
            if before:
                return within[max(before, key=int)], int(part)
        return len(self._children.get(parent, {})), place
