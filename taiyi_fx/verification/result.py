"""The result of a verification, and its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Verification:
    """The result of `verify`: all that monitoring changes in a model, if anything.

    ``print`` it to read it.

    Attributes:
        differences: The things that are not equal bit for bit, in order; empty if all are equal.
        unstable: In what the plain model differs from itself from one random state, where nothing
            can be judged.
        compared: How many things of each kind are equal, or were compared.
        calls: Of each module read at its calls, how many were seen and how many there were, over
            all training steps.
        unseen: Readings of calls that did not come, with the reasons.
        readings: The number of values compared with a float64 computation.
        worst_error: The largest error among them, as a share of the number; of means, as a share of
            the mean magnitude. None if there was nothing to compare.
        worst_reading: Which one that is.
        not_compared: The configured quantities that were not compared with float64.
        warnings: The monitor's warnings in the meantime.
        cost_due: The cost of a training step where all is due, background work included, as a
            multiple of a plain one; None if the instrumented model raised something.
        cost_idle: The same where nothing is due.
        steps: The number of training steps.
    """

    differences: tuple[str, ...]
    unstable: tuple[str, ...]
    compared: Mapping[str, int]
    calls: Mapping[str, tuple[int, int]]
    unseen: tuple[str, ...]
    readings: int
    worst_error: float | None
    worst_reading: str
    not_compared: tuple[str, ...]
    warnings: tuple[str, ...]
    cost_due: float | None
    cost_idle: float | None
    steps: int

    @property
    def ok(self) -> bool:
        """True if all bits are equal and all calls were seen."""
        return self.first_difference is None

    @property
    def first_difference(self) -> str | None:
        """The first thing that differs, was not seen, or cannot be judged; None if nothing is."""
        if self.differences:
            return self.differences[0]
        if self.unseen:
            return self.unseen[0]
        if self.unstable:
            return f"the plain model differs from itself in {self.unstable[0]}"
        return None

    def __repr__(self) -> str:
        return f"<verification: {self._verdict}>"

    def __str__(self) -> str:
        rows = [row for row in self._rows() if row[1]]
        width = max(len(word) for word, _ in rows)
        return "\n".join(f"{word:{width}}  {text}" for word, text in rows)

    @property
    def _verdict(self) -> str:
        if self.ok:
            return "monitoring changed nothing, and saw every call"
        if self.differences:
            return f"monitoring made a difference: {self.differences[0]}"
        if self.unseen:
            return f"monitoring changed nothing that was compared, but missed {self.unseen[0]}"
        return "it cannot be judged, as the plain model differs from itself"

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "verdict", self._verdict
        yield "bits", self._bits()
        yield "", self._more(self.differences[1:])
        if self.unstable:
            yield "unstable", f"the plain model differs from itself in {self.unstable[0]}"
            yield "", self._more(self.unstable[1:])
            yield "", "try torch.use_deterministic_algorithms(True)"
        yield "calls", self._calls()
        yield "", self._more(self.unseen[1:])
        yield "numbers", self._numbers()
        named = ", ".join(self.not_compared)
        yield "", f"not compared with float64: {named}" if named else ""
        lines = [line.strip(" -") for text in self.warnings for line in text.splitlines()]
        yield "warned", self._more(tuple(lines))
        if self.cost_due is not None and self.cost_idle is not None:
            idle = f"{self.cost_idle:.2f} where nothing is"
            yield "cost", f"{self.cost_due:.2f} of a plain step where all is due, {idle}"

    def _bits(self) -> str:
        counts = ", ".join(_many(count, kind) for kind, count in self.compared.items() if count)
        judged = (
            f"{_many(len(self.differences), 'difference')} in" if self.differences else "equal:"
        )
        return f"{judged} {counts}"

    def _calls(self) -> str:
        if not self.calls:
            return "none to be seen: nothing is read at calls of modules"
        seen, made = (sum(pair[i] for pair in self.calls.values()) for i in (0, 1))
        return f"seen {seen:,} of {made:,}, of {_many(len(self.calls), 'module')}"

    def _numbers(self) -> str:
        if self.worst_error is None:
            return "none compared with float64"
        text = f"{self.readings:,} compared with float64"
        if not self.worst_error:
            return f"{text}, all exact"
        return f"{text}, off by {self.worst_error:.1e} at most ({self.worst_reading})"

    @staticmethod
    def _more(texts: tuple[str, ...]) -> str:
        shown = "; ".join(texts[:_SHOWN])
        return f"{shown}; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else shown


_SHOWN = 4


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun if count == 1 else f'{noun}s'}"
