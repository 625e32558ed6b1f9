"""The watch of a training: looks for findings as it goes on, and does what is asked for then."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from taiyi_fx.findings import Evidence, Finding
from taiyi_fx.findings.finding import SEVERITIES, Severity, with_consequences
from taiyi_fx.records.record import Block, Event, Record, Records, Series
from taiyi_fx.warning import warn, warn_of
from taiyi_fx.watch.actions import OnFinding, WatchOptions, actions, check_severity
from taiyi_fx.watch.news import News
from taiyi_fx.watch.pace import Pace
from taiyi_fx.watch.window import Facts, Window

Find = Callable[[Evidence], Sequence[Finding]]


@dataclass(frozen=True)
class Reaction:
    """The monitor's part after a step.

    Attributes:
        events: For the writers: the new findings.
        raises_cadence: True if adaptive schedules are to be due at each step for a while.
        stops: True if the training is to stop.
        findings: The new findings.
        is_changed: True if there are others than at the look before, told or not.
    """

    events: tuple[Event, ...] = ()
    raises_cadence: bool = False
    stops: bool = False
    findings: tuple[Finding, ...] = ()
    is_changed: bool = False


_NOTHING = Reaction()


class Watch:
    """Looks at the numbers of a training as they are recorded.

    Args:
        describe: Gives the facts about a series.
        options: What to do with a new finding, beside an event.
        strict: Raise errors of rules and of the user's functions.

    Attributes:
        should_skip: True if the step that was looked at last has numbers that are not finite, or a
            new finding, and ``"skip"`` was asked for.
        pace: When to look.
        found: The step that was looked at last, and all that was found; none before the first look.
        is_heard: True if something is asked for at a new finding.
        skips: True if a step's numbers are needed before its update.
    """

    def __init__(
        self,
        describe: Callable[[Series], Facts],
        options: WatchOptions,
        *,
        strict: bool = False,
    ) -> None:
        self._window = Window(describe)
        self._news = News(lambda series: describe(series)[0] == "backward")
        self._strict = strict
        self._last: Block | Record | None = None
        self._step: int | None = None
        self.found: tuple[int, Sequence[Finding]] | None = None
        self._told: dict[str, tuple[int, Finding]] = {}
        self._warned: set[str] = set()
        self.pace = Pace()
        self.should_skip = False
        self.on_finding = options.on_finding
        self.severity = options.severity

    @property
    def on_finding(self) -> OnFinding:
        """The actions at a new finding, as they were given."""
        return self._asked

    @on_finding.setter
    def on_finding(self, asked: OnFinding) -> None:
        self._actions, self._asked = actions(asked), asked
        self.is_heard, self.skips = asked is not None, "skip" in self._actions.words

    @property
    def severity(self) -> Severity:
        """The lowest severity of findings that are acted upon."""
        return self._severity

    @severity.setter
    def severity(self, severity: Severity) -> None:
        check_severity(severity)
        self._severity: Severity = severity

    def clear(self) -> None:
        """Begins anew, as for another training."""
        self._window.clear()
        self._news.clear()
        self.pace.clear()
        self._step = None
        self.found = None
        self._told.clear()

    def gone(self, found: Sequence[Finding]) -> str:
        """The kinds that were warned of as training went on and are not found any more, in words.

        Args:
            found: What is found now.
        """
        left = {one.kind for one in with_consequences(found)}
        gone = [(step, one) for kind, (step, one) in self._told.items() if kind not in left]
        named = ", ".join(f"{one.severity} {one.kind} (step {step})" for step, one in gone)
        return f"withdrawn, as later numbers speak against it: {named}" if named else ""

    def after(
        self,
        step: int,
        records: Records,
        find: Find,
        warned_of: Callable[[], Mapping[str, int]] = dict,
        *,
        may_overflow: bool,
    ) -> Reaction:
        """Takes the numbers that have come, looks at all of them if it is time, and acts.

        An error of a rule or of a user's function is warned of once, by name.

        Args:
            step: The step that was tracked.
            records: All records.
            find: Applies the rules.
            warned_of: Gives the kinds of findings that the monitor itself has warned of as their
                numbers came, each with its first step.
            may_overflow: True if a scaler skips the step where gradients are not finite.

        Raises:
            Exception: Any that a rule or a user's function raises, if strict.
        """
        is_odd, is_bad, new = self._watched(step, records, find, may_overflow)
        is_changed, self._news.is_changed = self._news.is_changed, False  # until the next look
        if not (is_odd or is_bad or new or is_changed or self._actions.webhooks):
            self.should_skip = False
            return _NOTHING
        severe = self._report_findings(new, warned_of())
        self.should_skip = self.skips and (is_bad or bool(severe))
        stops = "stop" in self._actions.words and bool(severe)
        return Reaction(_events(new, step), is_odd or bool(new), stops, tuple(new), is_changed)

    def at_end(
        self, records: Records, find: Find, warned_of: Callable[[], Mapping[str, int]] = dict
    ) -> Reaction:
        """Looks a last time, if numbers came after the look before; gives what is new.

        No finding will be seen a second time, so that all are reported: to the user's functions
        and addresses too, while there is nothing left to stop.

        Args:
            records: All records.
            find: Applies the rules.
            warned_of: Gives the kinds of findings that the monitor itself has warned of as their
                numbers came, each with its first step.

        Raises:
            Exception: Any that a rule or a user's function raises, if strict.
        """
        _, _, new = self._watched(None, records, find, may_overflow=False)
        self._report_findings(new, warned_of())
        return Reaction(_events(new, self._step or 0), findings=tuple(new))

    def close(self) -> None:
        """Waits for findings that are being sent, but not for long."""
        for webhook in self._actions.webhooks:
            webhook.close()
            self._warn_once(webhook.pop_errors())

    def _watched(
        self, step: int | None, records: Records, find: Find, may_overflow: bool
    ) -> tuple[bool, bool, list[Finding]]:
        """True if a number is odd, and if one of this step is not finite; and new findings.

        Without a step it is the end.
        """
        is_odd = is_bad = False
        try:
            is_odd, is_bad = self._take(step, records, may_overflow)
            is_due = self.pace.is_due or (step is None and self.pace.has_unseen)
            if not is_due:
                return is_odd, is_bad, []
            new = self._look(step, find)
            return is_odd or self._news.has_candidates, is_bad, new
        except Exception as error:  # monitoring never ends a run: reported by name
            if self._strict:
                raise
            self._warn_of_error(f"looking for findings: {_raised_in(error.__traceback__)}", error)
            return is_odd, is_bad, []

    def _take(self, step: int | None, records: Records, may_overflow: bool) -> tuple[bool, bool]:
        """Takes new numbers; true if any is odd, and if any of this step is not finite."""
        is_odd = is_bad = False
        for item in records.after(self._last):
            self._last = item
            if not isinstance(item, Block) or not item.series:
                continue
            if item.mode != "train":
                self._take_evaluated(item)
                continue
            group = self._window.add(item)
            is_fault = group.is_bad and not (may_overflow and group.direction == "backward")
            is_bad = is_bad or (is_fault and item.step == step)
            # What is not finite mostly stays so, and is news but once.
            is_odd = is_odd or group.is_spike or group.is_jump or (is_fault and not group.was_bad)
            if self._step is None or item.step > self._step:
                passed = 1 if self._step is None else item.step - self._step
                self._step = item.step
                self.pace.count(passed)
        if is_odd:
            self.pace.hurry()
        return is_odd, is_bad

    def _take_evaluated(self, block: Block) -> None:
        """Takes what was logged in an evaluation, which makes no look due."""
        logged = [(s, v) for s, v in zip(block.series, block.values, strict=True) if not s[0]]
        if logged:
            names, values = zip(*logged, strict=True)
            self._window.add(Block(block.step, block.mode, names, values))

    def _look(self, step: int | None, find: Find) -> list[Finding]:
        try:
            found = find(self._window.evidence())
            now = (self._step or 0) if step is None else step
            self.found = now, found
            told = [one for one in found if one.severity != "note" or self._is_severe(one)]
            return self._news.of(told, now, self._is_severe, is_last=step is None)
        finally:
            self.pace.end(is_waiting=self._news.has_candidates)

    def _report_findings(
        self, new: Sequence[Finding], warned_of: Mapping[str, int]
    ) -> list[Finding]:
        """Warns of all, and sends those on that are severe enough, which it returns."""
        severe = [one for one in new if self._is_severe(one)]
        for one in new:
            self._told.setdefault(one.kind, (self._step or 0, one))
            if one.kind not in warned_of or one.step < warned_of[one.kind]:
                warn(str(one))
        for one in severe:
            self._send(one)
        for webhook in self._actions.webhooks:
            self._warn_once(webhook.pop_errors())
        return severe

    def _is_severe(self, one: Finding) -> bool:
        return SEVERITIES.index(one.severity) <= SEVERITIES.index(self._severity)

    def _send(self, one: Finding) -> None:
        """Gives a finding to the user's functions and addresses."""
        for call in self._actions.calls:
            try:
                call(one)
            except Exception as error:
                if self._strict:
                    raise
                self._warn_of_error(
                    f"on_finding: {getattr(call, '__qualname__', repr(call))}", error
                )
        for webhook in self._actions.webhooks:
            webhook.send(one)

    def _warn_of_error(self, name: str, error: Exception) -> None:
        self._warn_once([f"{name} failed: {type(error).__name__}: {error}"])

    def _warn_once(self, texts: Sequence[str]) -> None:
        """Warns of each text once."""
        new = [text for text in dict.fromkeys(texts) if text not in self._warned]
        self._warned.update(new)
        warn_of(new)


def _events(new: Sequence[Finding], step: int) -> tuple[Event, ...]:
    return tuple(Event(step, "finding", one.module, str(one)) for one in new)


def _raised_in(trace: TracebackType | None) -> str:
    """The name of the function that an error comes from."""
    last = [*traceback.walk_tb(trace)][-1][0]
    return f"{last.f_globals.get('__name__', '?')}.{last.f_code.co_name}"
