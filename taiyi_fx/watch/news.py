"""The findings that are new: each is told once, when it is certain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from taiyi_fx.findings import Finding
from taiyi_fx.findings.finding import Severity

QUIET = 100
"""Steps in which of one kind no second finding is told."""

_Key = tuple[str, str, Severity]


class News:
    """The findings that were told already.

    Args:
        is_of_gradients: Takes a finding's module and quantity to true if they are of gradients.
    """

    def __init__(self, is_of_gradients: Callable[[tuple[str, str]], bool]) -> None:
        self._is_of_gradients = is_of_gradients
        self.clear()

    def clear(self) -> None:
        """Forgets all, as for another training."""
        self._seen: set[_Key] = set()
        self._told: set[_Key] = set()
        self._last: dict[tuple[str, Severity], int] = {}

    @property
    def is_waiting(self) -> bool:
        """True if a finding was seen once and has not been told."""
        return not self._seen <= self._told

    def of(self, found: Sequence[Finding], step: int) -> list[Finding]:
        """The new ones of all that were found at a step.

        A finding is told when it is seen a second time, as few numbers may look like a fault; a NaN
        or an Inf at once.
        """
        found = [one for one in found if one.severity != "note"]
        new = [one for one in found if self._is_new(one, step)]
        for one in new:
            self._told.update(map(_key, _with_consequences(one)))
            self._last[one.kind, one.severity] = step
        self._seen = {_key(one) for one in found}
        return new

    def _is_new(self, one: Finding, step: int) -> bool:
        key = _key(one)
        last = self._last.get((one.kind, one.severity))
        is_quiet = last is not None and step - last < QUIET
        return (
            key not in self._told
            and not is_quiet
            and (key in self._seen or self._is_certain(one, step))
        )

    def _is_certain(self, one: Finding, step: int) -> bool:
        """True for NaN or Inf, but in gradients of the last step: its update may be skipped."""
        return any(
            each.kind == "non_finite"
            and (each.step < step or not self._is_of_gradients((each.module, each.quantity)))
            for each in _with_consequences(one)
        )


def _with_consequences(one: Finding) -> Iterator[Finding]:
    yield one
    for each in one.consequences:
        yield from _with_consequences(each)


def _key(one: Finding) -> _Key:
    return one.kind, one.module, one.severity
