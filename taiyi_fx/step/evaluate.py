"""Quantities computed from what was read: one lane of work, in the order of its steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.config import Subscription
from taiyi_fx.passes.ir import CALL_PORTS, Mode
from taiyi_fx.passes.rewrite.pipeline import add_note
from taiyi_fx.quantity import NoValue
from taiyi_fx.record import Series
from taiyi_fx.step.batches import computed
from taiyi_fx.step.statistics import Finished, Inputs
from taiyi_fx.step.transfer import Column, Outcome, Pending, Transfer


class Work(NamedTuple):
    """One quantity of one call to compute.

    Attributes:
        subscription: What was asked for.
        step: The step that was tracked.
        mode: Of the forward.
        call: Which of the module's calls in it.
        inputs: What was read; None if there was nothing.
        is_emitted: Whether a value is due, or a window only goes on.
    """

    subscription: Subscription
    step: int
    mode: Mode
    call: int
    inputs: Inputs | None
    is_emitted: bool

    @property
    def module(self) -> str:
        """The series' module."""
        return self.subscription.module + (f"@{self.call}" if self.call else "")


class Evaluator:
    """Computes quantities; keeps what those that span steps need from one to the next."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._windows: dict[tuple[Subscription, Mode, int], list[dict[str, Any]]] = {}
        self._previous: dict[tuple[Subscription, Mode, int, str], list[Any]] = {}

    def clear(self) -> None:
        """Forgets earlier steps."""
        self._windows.clear()
        self._previous.clear()

    def start(
        self,
        works: Sequence[Work],
        columns: Sequence[Column] = (),
        also: Sequence[Pending] = (),
    ) -> Transfer:
        """Computes everything and sends it to the host, with what else is on its way there.

        Where it is called, autograd takes no notes.

        Raises:
            Exception: Whatever a quantity raised, if strict.
        """
        if not works:
            return Transfer(Outcome(), columns, also, strict=self._strict)
        outcome, finished = Outcome(), Finished()
        together, alone = computed(works)
        columns, pending = [*columns, *together], list(also)
        for work in alone:
            series = work.module, work.subscription.label
            make = functools.partial(self._computed, work, finished)
            pending += self._guarded(series, make, outcome)
        for series, together in _over_all(works).items():
            make = functools.partial(_computed_over_all, together, finished)
            pending += self._guarded(series, make, outcome)
        return Transfer(outcome, columns, pending, strict=self._strict)

    @torch.no_grad()
    def run(self, works: Sequence[Work]) -> Outcome:
        """Computes everything and waits for it.

        Raises:
            Exception: Whatever a quantity raised, if strict.
        """
        return self.start(works).outcome()

    def _guarded(
        self, series: Series, make: Callable[[], Iterator[Pending]], outcome: Outcome
    ) -> list[Pending]:
        try:
            return list(make())
        except NoValue as why:
            outcome.reasons[series] = str(why)
        except Exception as error:  # Monitoring never ends a run: reported by name.
            if self._strict:
                add_note(error, f"while computing {series[1]} of {series[0]!r}")
                raise
            outcome.failures[series] = f"{type(error).__name__}: {error}"
        return []

    def _computed(self, work: Work, finished: Finished) -> Iterator[Pending]:
        subscription = work.subscription
        quantity = subscription.quantity
        if work.inputs is None:
            self._forget(work)
            return
        inputs = {name: finished.of(found) for name, found in work.inputs.found.items()}
        if quantity.window:
            inputs = self._windowed(work, inputs)
        if not work.is_emitted:
            return
        for name, source in quantity.sources.items():
            if source.ago:
                inputs[name] = self._earlier(work, name, source.ago, inputs[name])
        yield from _results(quantity.compute(**inputs, **subscription.arguments), work, work.module)

    def _earlier(self, work: Work, name: str, ago: int, now: Any) -> Any:
        """What a reading was some due steps before; None before there were as many."""
        key = work.subscription, work.mode, work.call, name
        kept = self._previous.setdefault(key, [])
        kept.append(now)
        return kept.pop(0) if len(kept) > ago else None

    def _forget(self, work: Work) -> None:
        """What was read before is no longer that of the last due step."""
        for name in work.subscription.quantity.sources:
            self._previous.pop((work.subscription, work.mode, work.call, name), None)

    def _windowed(self, work: Work, inputs: dict[str, Any]) -> dict[str, Any]:
        """Adds this step to the window; at emission, the window's readings stacked."""
        key = work.subscription, work.mode, work.call
        window = self._windows.setdefault(key, [])
        sources = work.subscription.quantity.sources
        window.append({k: v for k, v in inputs.items() if sources[k].port in CALL_PORTS})
        if not work.is_emitted:
            return inputs
        del self._windows[key]  # whatever comes of it, the next is new
        stacked = {name: _stack([step[name] for step in window]) for name in window[0]}
        return {**inputs, **stacked}


def _over_all(works: Sequence[Work]) -> dict[Series, list[Work]]:
    """Works that have a value of the whole model together, by its series."""
    found: dict[tuple[Any, Mode], list[Work]] = {}
    for work in works:
        asked = work.subscription
        if asked.quantity.over_all and work.is_emitted and work.inputs is not None:
            key = (asked.quantity, asked.options), work.mode
            found.setdefault(key, []).append(work)
    return {
        ("", together[0].subscription.label): together
        for together in found.values()
        if all(work.module for work in together)  # the model itself may be such a layer
    }


def _computed_over_all(works: list[Work], finished: Finished) -> Iterator[Pending]:
    over_all = works[0].subscription.quantity.over_all
    assert over_all is not None
    weights = [work.inputs.weight for work in works if work.inputs is not None]
    if len(set(weights)) < len(weights):
        raise NoValue("a weight is used several times, so that its gradients add up")
    every = [work.inputs for work in works if work.inputs is not None]
    values = [finished.of(found) for inputs in every for found in inputs.found.values()]
    return _results(over_all(values), works[0], "")


def _results(computed: Any, work: Work, module: str) -> Iterator[Pending]:
    label, present = work.subscription.label, work.inputs and work.inputs.present
    for suffix, value in (computed if isinstance(computed, Mapping) else {"": computed}).items():
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(value)
        tensor = tensor.to_dense() if tensor.layout != torch.strided else tensor
        why = work.subscription.absence
        yield Pending(work.step, module, label, suffix, work.mode, tensor, present, why)


def _stack(values: list[Any]) -> Any:
    if isinstance(values[0], Tensor):
        return torch.stack(values)
    if isinstance(values[0], tuple):
        return type(values[0])(*map(torch.stack, zip(*values, strict=True)))
    return values
