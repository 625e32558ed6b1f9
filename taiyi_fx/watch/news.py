"""The findings that are new: each is reported once, when it is certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from taiyi_fx.findings import CERTAIN, Finding
from taiyi_fx.findings.finding import Severity, with_consequences

QUIET = 100
"""Steps in which of one kind no second finding is reported."""

_LASTS, _MOST = 64, 128
_SPIKES = ("loss_spike", "input_spike")
"""Kinds of what is over as soon as it is there."""

_Key = tuple[str, str, Severity]


class News:
    """The findings that were reported already.

    Args:
        is_of_gradients: Takes a finding's module and quantity to true if they are of gradients.

    Attributes:
        has_candidates: True if the last look saw a finding for the first time, unreported.
        is_changed: True if it saw one for the second time, be it reported or not.
    """

    def __init__(self, is_of_gradients: Callable[[tuple[str, str]], bool]) -> None:
        self._is_of_gradients = is_of_gradients
        self.clear()

    def clear(self) -> None:
        """Forgets all, as for another training."""
        self._seen: dict[_Key, int] = {}
        self._reported: set[_Key] = set()
        self._last: dict[tuple[str, Severity], int] = {}
        self._sure: set[_Key] = set()
        self.has_candidates = self.is_changed = False

    def of(
        self,
        found: Sequence[Finding],
        step: int,
        is_urgent: Callable[[Finding], bool] = lambda one: True,
        *,
        is_last: bool = False,
    ) -> list[Finding]:
        """The new ones of all that were found at a step.

        An urgent one, a spike, and what code or a loss's functions show, is reported when it is
        seen a second time, as few numbers may look like a fault; a NaN or an Inf at once. Others
        have to last: for 64 steps, and as many again as training had taken when they were seen
        first, 128 at most, as much that looks odd in the beginning mends itself.

        Args:
            found: All findings.
            step: The step.
            is_urgent: Takes a finding to true if it is not to wait.
            is_last: True if none will be seen a second time.
        """
        new = [one for one in found if self._is_new(one, step, is_urgent(one), is_last)]
        for one in new:
            self._last[one.kind, one.severity] = step
        # What follows from a reported one is none, though it stands alone at a later look.
        told = [one for one in found if one in new or _key(one) in self._reported]
        self._reported.update(map(_key, with_consequences(told)))
        seen = {key: self._seen.get(key, step) for key in map(_key, found)}
        self.has_candidates = not seen.keys() <= self._seen.keys() | self._reported
        sure = (seen.keys() & self._seen.keys()) | set(map(_key, new))
        self.is_changed = not sure <= self._sure
        self._sure |= sure
        self._seen = seen
        return new

    def _is_new(self, one: Finding, step: int, is_urgent: bool, is_last: bool) -> bool:
        key = _key(one)
        last = self._last.get((one.kind, one.severity))
        is_quiet = last is not None and step - last < QUIET
        return (
            key not in self._reported
            and not is_quiet
            and (self._has_lasted(key, step, is_urgent) or self._is_certain(one, step, is_last))
        )

    def _has_lasted(self, key: _Key, step: int, is_urgent: bool) -> bool:
        since, (kind, *_) = self._seen.get(key), key
        if since is None:
            return False
        is_now = is_urgent or kind in _SPIKES or kind in CERTAIN
        return is_now or step - since >= _LASTS + min(since, _MOST)

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
