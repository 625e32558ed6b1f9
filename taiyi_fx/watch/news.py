"""The findings that are new: each is reported once, when it is certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from taiyi_fx.findings import Finding
from taiyi_fx.findings.finding import Severity, with_consequences

QUIET = 100
"""Steps in which of one kind no second finding is reported."""

_Key = tuple[str, str, Severity]


class News:
    """The findings that were reported already.

    Args:
        is_of_gradients: Takes a finding's module and quantity to true if they are of gradients.

    Attributes:
        has_candidates: True if the last look saw a finding for the first time, unreported.
    """

    def __init__(self, is_of_gradients: Callable[[tuple[str, str]], bool]) -> None:
        self._is_of_gradients = is_of_gradients
        self.clear()

    def clear(self) -> None:
        """Forgets all, as for another training."""
        self._seen: set[_Key] = set()
        self._reported: set[_Key] = set()
        self._last: dict[tuple[str, Severity], int] = {}
        self.has_candidates = False

    def of(self, found: Sequence[Finding], step: int, *, is_last: bool = False) -> list[Finding]:
        """The new ones of all that were found at a step.

        A finding is reported when it is seen a second time, as few numbers may look like a fault;
        a NaN or an Inf at once.

        Args:
            found: All findings.
            step: The step.
            is_last: True if none will be seen a second time.
        """
        new = [one for one in found if self._is_new(one, step, is_last)]
        for one in new:
            self._reported.update(map(_key, with_consequences([one])))
            self._last[one.kind, one.severity] = step
        seen = {_key(one) for one in found}
        self.has_candidates = not seen <= self._seen | self._reported
        self._seen = seen
        return new

    def _is_new(self, one: Finding, step: int, is_last: bool) -> bool:
        key = _key(one)
        last = self._last.get((one.kind, one.severity))
        is_quiet = last is not None and step - last < QUIET
        return (
            key not in self._reported
            and not is_quiet
            and (key in self._seen or self._is_certain(one, step, is_last))
        )

    def _is_certain(self, one: Finding, step: int, is_last: bool) -> bool:
        """True for NaN or Inf, but in gradients of the last step: its update may be skipped.

        Where nothing will be seen again, of all else, too.
        """
        ends = [each for each in with_consequences([one]) if each.kind == "non_finite"]
        if not ends:
            return is_last
        return any(
            each.step < step or not self._is_of_gradients((each.module, each.quantity))
            for each in ends
        )


def _key(one: Finding) -> _Key:
    return one.kind, one.module, one.severity
