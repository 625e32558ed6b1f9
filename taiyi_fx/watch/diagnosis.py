"""The diagnosis of a training: the rules applied to its numbers, with what else is known of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from torch import nn

from taiyi_fx.findings import (
    Evidence,
    Findings,
    MadeBy,
    ModelFacts,
    NotFinite,
    OptimizerFacts,
    Slip,
    code_of_loop,
    find,
    first_step,
    not_finite_of,
    of_elements,
    slips_of,
    slips_of_loop,
)
from taiyi_fx.outline import Outline
from taiyi_fx.outline.of_evidence import with_outline
from taiyi_fx.records.record import Records, Series
from taiyi_fx.step.whole_model import WholeModel
from taiyi_fx.warning import WarnOnce
from taiyi_fx.watch.input_looks import InputLooks, argument_names
from taiyi_fx.watch.loss_looks import LossLooks
from taiyi_fx.watch.model_calls import ModelCalls
from taiyi_fx.watch.window import Facts
from taiyi_fx.writers.protocol import SeriesInfo

_T = TypeVar("_T")


class Diagnosis:
    """Finds faults in the numbers of a training.

    Args:
        describe: Gives the facts about a series.
        missing: The reason for each value that was missing when last due.
        outline: Makes the model's outline.
        modules: The modules by name.
        whole: Knows the optimizers that train the model.
        strict: Raise what a rule raises.

    Attributes:
        losses: Looks at losses as they are logged.
        inputs: Looks at the model's inputs as it is called.
        run_again: The operation that made the NaN or Inf of a step that was run again, by step.
    """

    def __init__(
        self,
        describe: Callable[[Series], SeriesInfo],
        missing: Mapping[Series, str],
        outline: Callable[[], Outline],
        modules: Mapping[str, nn.Module],
        whole: WholeModel,
        *,
        strict: bool = False,
    ) -> None:
        self._describe = describe
        self._missing = missing
        self._outline = outline
        self._modules, self._whole = modules, whole
        self._strict = strict
        self.losses = LossLooks(modules, strict=strict)
        self.inputs = InputLooks(modules[""], strict=strict)
        self.calls = ModelCalls(modules[""], self.inputs, self.losses, strict=strict)
        self.run_again: Mapping[int, MadeBy] = {}
        self._not_finite: dict[int, NotFinite] = {}
        self._running: Mapping[str, Collection[int]] = {}
        self._slips: Mapping[str, Sequence[Slip]] | None = None
        self._warn = WarnOnce()

    def begin(self) -> None:
        """Notes which code trains, as its first step is tracked."""
        try:
            self._running = code_of_loop()
        except Exception as error:  # monitoring never ends a run: reported by name
            if self._strict:
                raise
            self._warn.of("running", f"the code that trains was not found: {error!r}")

    def facts(self, series: Series) -> Facts:
        """The facts about a series that rules look at."""
        info = self._describe(series)
        return info.direction, info.health, info.unit

    @property
    def remark(self) -> str:
        """A text on losses that were logged too late to see how they are made; else empty."""
        names = ", ".join(map(repr, self.losses.late))
        return f"log {names} before backward, and more can be found" if names else ""

    def of_records(self, records: Records) -> Findings:
        """All findings in what was recorded."""
        return self.find(Evidence.of_records(records, self.facts))

    def find(self, evidence: Evidence) -> Findings:
        """All findings in some evidence, most urgent first; a rule that fails is warned of once."""
        found = find(self.with_all_known(evidence), strict=self._strict)
        for one in found:
            if one.kind == "rule_failed" and not one.module:
                self._warn.of(one.text, f"looking for findings: {one.text}")
        return found

    def with_all_known(self, evidence: Evidence) -> Evidence:
        """Some evidence, with all that is known of the training beside its numbers."""
        evidence = evidence.with_series(of_elements(evidence.series, self._modules))
        self._look_at_tensors(evidence)
        return replace(
            with_outline(evidence, self._outline()),
            reasons=self._missing,
            model=ModelFacts.of(self._modules, self._slips_of_sources()),
            optimizer=OptimizerFacts.of(self._modules, self._whole.optimizers),
            of_losses=self.losses.read(s.quantity for s in evidence.logged.losses),
            inputs=self.inputs.read(),
            forwards_per_step=self._whole.forwards,
            not_finite=self._not_finite,
            run_again=self.run_again,
        )

    def _slips_of_sources(self) -> Mapping[str, Sequence[Slip]]:
        """The slips in the source of the model's classes and of the loop, which are read once."""
        if self._slips is None:
            found = self._read("the model", lambda: slips_of(self._modules), {})
            failed = None if self._strict else self._reader_failed
            names = self._read(
                "the model's arguments", lambda: argument_names(self._modules[""]), []
            )
            if of_loop := self._read(
                "the loop", lambda: slips_of_loop(self._running, failed, names), ()
            ):
                found = {**found, "": (*found.get("", ()), *of_loop)}
            self._slips = found
        return self._slips

    def _reader_failed(self, kind: str, error: Exception) -> None:
        self._warn.of(kind, f"the source of the loop was not looked through for {kind}: {error!r}")

    def _read(self, what: str, read: Callable[[], _T], otherwise: _T) -> _T:
        """The slips in some source; if reading fails, none."""
        try:
            return read()
        except Exception as error:  # monitoring never ends a run: reported by name
            if self._strict:
                raise
            self._warn.of(what, f"the source of {what} was not read: {error!r}")
            return otherwise

    def _look_at_tensors(self, evidence: Evidence) -> None:
        """Notes which modules are not finite, once, as the first NaN or Inf is new.

        Before the optimizer's step these are where it arises; after it, mostly all.
        """
        step = first_step(evidence)
        if step is not None and step == evidence.last_step and step not in self._not_finite:
            self._not_finite = {step: not_finite_of(self._modules)}
