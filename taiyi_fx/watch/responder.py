"""The response to what is found in tracked steps: denser reading, an end, events for writers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from torch import nn

from taiyi_fx.findings import Finding
from taiyi_fx.findings.as_json import as_json
from taiyi_fx.findings.finding import with_consequences
from taiyi_fx.outline import Outline
from taiyi_fx.records.record import Event, Series
from taiyi_fx.step.queue import StepQueue
from taiyi_fx.step.statistics import Scale
from taiyi_fx.step.tracker import Tracker
from taiyi_fx.warning import WarnOnce
from taiyi_fx.watch.actions import WatchOptions
from taiyi_fx.watch.diagnosis import Diagnosis
from taiyi_fx.watch.watch import Watch
from taiyi_fx.writers.protocol import SeriesInfo


class Responder:
    """Has tracked steps watched, and does what is asked for then.

    Args:
        options: The user's wishes of the watch.
        describe: Gives the facts about a series.
        outline: Makes the model's outline.
        modules: The modules by name.
        tracker: Reads more densely, or ends, where the response asks for it.
        queue: Has the records, and takes events for writers.
        strict: Raise what goes wrong.

    Attributes:
        watch: Looks at the numbers of steps.
        diagnosis: Finds faults in them.
    """

    def __init__(
        self,
        options: WatchOptions,
        describe: Callable[[Series], SeriesInfo],
        outline: Callable[[], Outline],
        modules: Mapping[str, nn.Module],
        tracker: Tracker,
        queue: StepQueue,
        *,
        strict: bool = False,
    ) -> None:
        self.diagnosis = Diagnosis(
            describe, queue.missing, outline, modules, tracker.whole, strict=strict
        )
        self.watch = Watch(self.diagnosis.facts, options, strict=strict)
        self._tracker, self._queue = tracker, queue
        self._strict = strict
        self._shown: tuple[int, frozenset[str]] = -1, frozenset()
        self._warn = WarnOnce()

    def show(self, found: Sequence[Finding]) -> str:
        """The kinds that were warned of as training went on and are not found any more, in words.

        Of what is shown behind the last step of a training its end does not warn once more.

        Args:
            found: What is found now, and shown to the user.
        """
        kinds = frozenset(one.kind for one in with_consequences(found))
        self._shown = self._tracker.steps.next, kinds
        return self.watch.gone(found)

    @property
    def can_skip(self) -> bool:
        """True if steps can be left out, and that was asked for."""
        return self.watch.skips and self._tracker.is_alone

    def after(self, step: int, scale: Scale) -> Sequence[Finding]:
        """Looks for findings after a step, and returns the new ones.

        Whatever fails, training goes on.

        Raises:
            Exception: Whatever goes wrong, if strict.
        """
        try:
            found = self.watch.after(
                step,
                self._queue.records,
                self.diagnosis.find,
                self._warned_of,
                may_overflow=scale.may_overflow,
            )
            if found.raises_cadence or found.stops:
                self._tracker.wish(step, reads_densely=found.raises_cadence, ends=found.stops)
            if found.events or found.is_changed:
                self._write(found.events)
                if self._queue.is_written:
                    self._queue.write_pending()
            return found.findings
        except Exception as error:
            if self._strict:
                raise
            self._report(error)
        return ()

    def at_end(self) -> Sequence[Finding]:
        """Looks for findings a last time, as training is over; returns the new ones.

        Raises:
            Exception: Whatever goes wrong, if strict.
        """
        try:
            records, find = self._queue.records, self.diagnosis.find
            step, kinds = self._shown
            shown = dict.fromkeys(kinds if step == self._tracker.steps.next else (), 0)
            found = self.watch.at_end(records, find, lambda: {**self._warned_of(), **shown})
            self._write(found.events)
            return found.findings
        except Exception as error:
            if self._strict:
                raise
            self._report(error)
        return ()

    def _write(self, events: Sequence[Event]) -> None:
        """Gives the writers what is new, and runs all that was found."""
        self._queue.add_events(events)
        if self._queue.is_written and self.watch.found is not None:
            step, found = self.watch.found
            text = json.dumps([*map(as_json, found)])
            self._queue.add_events([Event(step, "found", "", text)])

    def warn_if_none_skips(self) -> None:
        """Warns where steps cannot be left out, although that was asked for."""
        if self.watch.skips and not self.can_skip:
            self._warn.of(
                "skips",
                'on_finding="skip" leaves out no step where several ranks are joined: only one of '
                "them knows what is found, and all would have to leave it out",
            )

    def _warned_of(self) -> dict[str, int]:
        """The kinds of findings that were warned of as their numbers came, with the first step.

        Gradients that overflowed before, as a scaler handles, are none that began earlier.
        """
        sites = self._queue.non_finite
        is_warned = any(not site.is_overflow for site in sites)
        return {"non_finite": min(site.step for site in sites)} if is_warned else {}

    def _report(self, error: Exception) -> None:
        """Warns of an error, once."""
        text = f"looking for findings failed: {type(error).__name__}: {error}"
        self._warn.of("findings", text)
