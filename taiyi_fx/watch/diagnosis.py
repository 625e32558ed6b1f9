"""The diagnosis of a training: the rules applied to its numbers, with what else is known of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from taiyi_fx.findings import (
    Evidence,
    Findings,
    LossGraph,
    NotFinite,
    Regression,
    RegressionNotes,
    Slip,
    Squashed,
    TargetNotes,
    Targets,
    attributes_of,
    batch_axes_of,
    classes_of,
    decays_of,
    evaluates,
    find,
    first_step,
    frozen_adapters_of,
    frozen_of,
    group_settings_of,
    groups_of,
    hidden_in,
    hooks_of,
    is_released,
    left_out_of,
    loss_graph_of,
    mentions_hooks,
    not_finite_of,
    of_elements,
    owners_of,
    reading_saved,
    regression_of,
    repeated_in,
    same_masks_in,
    settings_of,
    shrinkage_of,
    slips_of,
    slips_of_script,
    squashed_by,
    step_counts_of,
    targets_of,
    undecaying_moments_of,
)
from taiyi_fx.outline import Outline
from taiyi_fx.outline.of_evidence import with_outline
from taiyi_fx.records.record import Records, Series
from taiyi_fx.step.whole_model import WholeModel
from taiyi_fx.warning import WarnOnce
from taiyi_fx.watch.window import Facts
from taiyi_fx.writers.protocol import SeriesInfo


class Diagnosis:
    """Finds faults in the numbers of a training.

    Args:
        describe: Gives the facts about a series.
        missing: The reason for each value that was missing when last due.
        outline: Makes the model's outline.
        modules: The modules by name.
        whole: Knows the optimizers that train the model.
        strict: Raise what a rule raises.
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
        self._logged: dict[str, int] = {}
        self._noted: list[tuple[str, RegressionNotes | TargetNotes]] = []
        self._regressions: dict[str, list[Regression]] = {}
        self._targets: dict[str, list[Targets]] = {}
        self._squashed: dict[str, Squashed] = {}
        self._classes: dict[str, int] = {}
        self._loss_graphs: dict[str, LossGraph] = {}
        self._late: list[str] = []
        self._not_finite: dict[int, NotFinite] = {}
        self._slips: Mapping[str, Sequence[Slip]] | None = None
        self._warn = WarnOnce()

    def facts(self, series: Series) -> Facts:
        """The facts about a series that rules look at."""
        info = self._describe(series)
        return info.direction, info.health, info.unit

    def look_at_loss(self, name: str, value: Any) -> None:
        """Notes how a number is made, if it is called a loss, the first time it is logged.

        What a constant would cost, and of which classes its targets are, is noted again, after four
        times as many numbers each time: the targets of a policy change with it.
        """
        if "loss" not in name.lower():
            return
        self._logged[name] = count = self._logged.get(name, 0) + 1
        if count & (count - 1) or count.bit_length() % 2 == 0:  # no power of four
            return
        try:
            with reading_saved(lambda: self._saves_plainly):
                self._look_at_loss(name, value, is_first=count == 1)
        except Exception as error:  # monitoring never ends a run: reported by name
            if self._strict:
                raise
            self._warn.of(name, f"how {name!r} is made is not known: {error!r}")

    def _look_at_loss(self, name: str, value: Any, *, is_first: bool) -> None:
        for notes in (regression_of(value), targets_of(value)):
            if notes is not None:
                self._noted.append((name, notes))
        if not is_first:
            return
        if is_released(value):
            self._late.append(name)
        if (squashed := squashed_by(value)) is not None:
            self._squashed[name] = squashed
        self._classes[name] = classes_of(value)
        self._loss_graphs[name] = loss_graph_of(value, owners_of(self._modules))

    def _read_notes(self) -> None:
        """Reads what was noted of losses, of which the host waits for each but once."""
        noted, self._noted = self._noted, []
        for name, notes in noted:
            read = notes.read()
            if isinstance(read, Targets):
                self._targets.setdefault(name, []).append(read)
            else:
                self._regressions.setdefault(name, []).append(read)

    @functools.cached_property
    def _saves_plainly(self) -> bool:
        """True if no code of the model's is seen to save tensors behind hooks."""
        return not mentions_hooks(self._modules)

    @property
    def remark(self) -> str:
        """A text on losses that were logged too late to see how they are made; else empty."""
        names = ", ".join(map(repr, self._late))
        return f"log {names} before backward, and more can be found" if names else ""

    def of_records(self, records: Records) -> Findings:
        """All findings in what was recorded."""
        return self.find(Evidence.of_records(records, self.facts))

    def find(self, evidence: Evidence) -> Findings:
        """All findings in some evidence, most urgent first; a rule that fails is warned of once."""
        evidence = evidence.with_series(of_elements(evidence.series, self._modules))
        self._look_at_tensors(evidence)
        self._read_notes()
        optimizers = self._whole.optimizers
        left_out, strangers = left_out_of(self._modules, optimizers)
        known = replace(
            with_outline(evidence, self._outline()),
            reasons=self._missing,
            squashed=self._squashed,
            groups=groups_of(self._modules, optimizers),
            decays=decays_of(self._modules, optimizers),
            left_out=left_out,
            strangers=strangers,
            hidden=hidden_in(self._modules, optimizers),
            batch_axes=batch_axes_of(self._modules),
            evaluates=evaluates(self._modules),
            classes=self._classes,
            loss_graphs=self._loss_graphs,
            regressions=self._regressions,
            targets=self._targets,
            frozen_adapters=frozen_adapters_of(self._modules),
            frozen=frozen_of(self._modules),
            hooks=hooks_of(self._modules),
            forwards_per_step=self._whole.forwards,
            repeated=repeated_in(self._modules),
            same_masks=same_masks_in(self._modules),
            settings=settings_of(self._modules),
            shrinkage=shrinkage_of(self._modules, optimizers),
            undecaying_moments=undecaying_moments_of(self._modules, optimizers),
            not_finite=self._not_finite,
            step_counts=step_counts_of(self._modules, optimizers),
            attributes=attributes_of(self._modules),
            slips=self._slips_of_sources(),
            group_settings=group_settings_of(self._modules, optimizers),
        )
        found = find(known, strict=self._strict)
        for one in found:
            if one.kind == "rule_failed" and not one.module:
                self._warn.of(one.text, f"looking for findings: {one.text}")
        return found

    def _slips_of_sources(self) -> Mapping[str, Sequence[Slip]]:
        """The slips in the source of the model's classes and of the script, which are read once."""
        if self._slips is None:
            try:
                self._slips = slips_of(self._modules)
                if of_script := slips_of_script():
                    self._slips = {**self._slips, "": (*self._slips.get("", ()), *of_script)}
            except Exception as error:  # monitoring never ends a run: reported by name
                if self._strict:
                    raise
                self._slips = {}
                self._warn.of("source", f"the source of the model was not read: {error!r}")
        return self._slips

    def _look_at_tensors(self, evidence: Evidence) -> None:
        """Notes which modules are not finite, once, as the first NaN or Inf is new.

        Before the optimizer's step these are where it arises; after it, mostly all.
        """
        step = first_step(evidence)
        if step is not None and step == evidence.last_step and step not in self._not_finite:
            self._not_finite = {step: not_finite_of(self._modules)}
