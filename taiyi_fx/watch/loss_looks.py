"""Looks at losses as they are logged: how they are made, and at what they aim."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from taiyi_fx.findings import (
    LossFacts,
    Regression,
    RegressionNotes,
    TargetNotes,
    Targets,
    classes_of,
    is_released,
    loss_graph_of,
    mentions_hooks,
    owners_of,
    reading_saved,
    regression_of,
    squashed_by,
    targets_of,
)
from taiyi_fx.passes.probes.modes import unseen
from taiyi_fx.warning import WarnOnce
from taiyi_fx.watch.returned_loss import NAME, loss_in


@dataclass
class _Loss:
    """One loss, as far as it was looked at.

    Attributes:
        count: The numbers of it that were logged.
        has_graph: True if the first one came with what it was made by.
        facts: What its first number told.
        notes: What others told that is not read yet.
        regressions: The costs of constants that were read.
        targets: The targets that were read.
    """

    count: int = 0
    has_graph: bool = False
    facts: LossFacts = field(default_factory=LossFacts)
    notes: list[RegressionNotes | TargetNotes] = field(default_factory=list)
    regressions: list[Regression] = field(default_factory=list)
    targets: list[Targets] = field(default_factory=list)

    def read(self) -> LossFacts:
        """All that is known; the host waits for each note but once."""
        notes, self.notes = self.notes, []
        for one in (note.read() for note in notes):
            if isinstance(one, Targets):
                self.targets.append(one)
            else:
                self.regressions.append(one)
        return replace(self.facts, regressions=(*self.regressions,), targets=(*self.targets,))


class LossLooks:
    """The losses of one monitor.

    Args:
        modules: The modules by name.
        strict: Raise what looking raises.

    Attributes:
        late: The names of those that were logged after their backward.
    """

    def __init__(self, modules: Mapping[str, nn.Module], *, strict: bool = False) -> None:
        self._modules, self._strict = modules, strict
        self._losses: dict[str, _Loss] = {}
        self._returned = _Loss()
        self._warn = WarnOnce()
        self.late: list[str] = []

    def look_at(self, name: str, value: Any) -> None:
        """Notes how a number is made, if it is called a loss, the first time it is logged.

        What a constant would cost, and of which classes its targets are, is noted again, after four
        times as many numbers each time: the targets of a policy change with it.
        """
        if "loss" not in name.lower():
            return
        loss = self._losses.setdefault(name, _Loss())
        loss.count += 1
        if loss.count & (loss.count - 1) or loss.count.bit_length() % 2 == 0:  # no power of four
            return
        self._try_to_look_at(name, value, loss)

    def look_at_returned(self, value: Any) -> None:
        """Notes how the loss is made that the model itself returns, if it does.

        It stands for the first loss of which numbers alone are logged, as trainers do.
        """
        unseen(self._look_at_returned, value)

    def _look_at_returned(self, value: Any) -> None:
        loss = loss_in(value)
        if loss is not None:
            self._returned.count += 1
            self._try_to_look_at(NAME, loss, self._returned)

    def _try_to_look_at(self, name: str, value: Any, loss: _Loss) -> None:
        try:
            with reading_saved(lambda: self._saves_plainly):
                self._look_at(name, value, loss)
        except Exception as error:  # monitoring never ends a run: reported by name
            if self._strict:
                raise
            self._warn.of(name, f"how {name!r} is made is not known: {error!r}")

    def _look_at(self, name: str, value: Any, loss: _Loss) -> None:
        loss.notes += [one for one in (regression_of(value), targets_of(value)) if one is not None]
        if loss.count > 1:
            return
        loss.has_graph = getattr(value, "grad_fn", None) is not None
        if is_released(value):
            self.late.append(name)

        def fails(what: str, error: Exception) -> None:
            self._warn.of(f"{name} {what}", f"{what!r} of {name!r} is not known: {error!r}")

        failed = None if self._strict else fails
        loss.facts = LossFacts(
            squashed=squashed_by(value),
            classes=classes_of(value),
            graph=loss_graph_of(value, owners_of(self._modules), failed),
        )

    def read(self, names: Iterable[str] = ()) -> dict[str, LossFacts]:
        """All that is known of each loss, by its name.

        Args:
            names: Those of losses of training with numbers, of which the first may be returned by
                the model.
        """
        found = {name: loss.read() for name, loss in self._losses.items()}
        if self._returned.count and not self.knows_graph:
            found[next(iter(names), NAME)] = self._returned.read()
        return found

    @property
    def knows_graph(self) -> bool:
        """True if a loss was logged with what it was made by."""
        return any(one.has_graph for one in self._losses.values())

    @functools.cached_property
    def _saves_plainly(self) -> bool:
        """True if no code of the model's is seen to save tensors behind hooks."""
        return not mentions_hooks(self._modules)
