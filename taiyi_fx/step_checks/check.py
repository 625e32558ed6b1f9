"""A step of a training, tried on one batch before it is trained with."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.optim import Optimizer

from taiyi_fx.findings.causes import by_severity
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.listed import Findings
from taiyi_fx.step.whole_model import check_optimizers
from taiyi_fx.step_checks.batch import batch_of
from taiyi_fx.step_checks.blame import first_wrong
from taiyi_fx.step_checks.gradients import gradient_findings
from taiyi_fx.step_checks.inputs import input_findings
from taiyi_fx.step_checks.kinds import CROSSING_ROWS, MIXED_ROWS, NOT_FINITE, UNREPEATABLE
from taiyi_fx.step_checks.learning import learning_findings
from taiyi_fx.step_checks.modes import mode_findings
from taiyi_fx.step_checks.places import future_findings, padding_findings
from taiyi_fx.step_checks.precision import precision_findings
from taiyi_fx.step_checks.rows import crossing_findings, order_findings
from taiyi_fx.step_checks.shapes import broadcast_findings
from taiyi_fx.step_checks.trial import Seen, Trial, Trials, trial
from taiyi_fx.step_checks.untried import Untried
from taiyi_fx.step_checks.updates import update_findings


def step_check(
    model: nn.Module,
    step: Callable[..., Any],
    *args: Any,
    optimizer: Optimizer | Sequence[Optimizer] | None = None,
    **kwargs: Any,
) -> Findings:
    """Tries a step of a training on one batch, and returns what is wrong with it.

    The step is run some dozens of times, with parameters, samples, places and types changed, and
    what its loss and the model's outputs do is compared with what they should:

    - ``finite numbers`` and ``repetition``: the loss is finite, and the same a second time.
    - ``gradient``: the loss changes with the parameters as its gradient says (central differences
      in float64).
    - ``order``: it stays the same when the samples of the batch come in another order.
    - ``samples``: the output of a sample does not depend on other samples.
    - ``shapes``: no column of numbers, one for each sample, meets a row of such.
    - ``inputs``: each tensor of the batch has an effect.
    - ``modes``: in evaluation mode no dropout and no batch norm is as in training.
    - ``future``: where the next token, or value, is asked for, an output depends on none that come
      later.
    - ``padding``: it does not depend on what a mask, or lengths, leave out.
    - ``precision``: the loss in the model's own type is that of float64.
    - ``update``, with an optimizer: its step moves what has a gradient, and hardly what has none.
    - ``learning``, with an optimizer: a hundred updates on the batch alone bring the loss down.

    What depends on chance is drawn from the same seeds each time. All that exchanges samples,
    places or types is tried in evaluation mode. Behind it the model, its gradients, the optimizer
    and random numbers are as before; what else the step changes, such as a list that losses are
    appended to, is not put back.

    Args:
        model: The model; of several, one that has them as parts, or one of them, as those that
            the step's function names are known, too.
        step: Takes the batch, and returns its loss with its graph, or something with a ``loss``,
            such as what models of transformers return: it calls neither backward nor the optimizer.
        *args: The batch, of two samples at least, as the step takes it: by position.
        optimizer: The optimizer, or several, if updates are to be tried: not by itself, but by
            another one of its class with its options. Only what it has is to get a gradient.
        **kwargs: The batch by name.

    Returns:
        The findings, most urgent first; shown, they say what was tried and what could not be.

    Raises:
        TypeError: The step returns no loss, or an optimizer is none.
        ValueError: There is nothing to learn in the model, or a lazy module has not been called.
        Exception: What the step itself raises.

    Example::

        def step(x, y):
            return F.cross_entropy(model(x), y)

        print(taiyi_fx.step_check(model, step, *next(iter(loader)), optimizer=optimizer))
    """
    models = {"": model, **_others(step, model)}
    batch = batch_of(step, args, kwargs)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("the model has no parameter that is to be learned")
    optimizers = check_optimizers(optimizer)
    trials = functools.partial(trial, models, step, batch, optimizers)
    gathered = _Gathered()
    for checks in (_first(trials), _in_float64(trials), _last(trials, optimizers)):
        with contextlib.closing(checks):  # at once, whatever ends it: a traceback would hold it
            for name, check in checks:
                gathered.add(name, check)
        if any(one.kind in _HIDING for one in gathered.found):
            break
    return gathered.findings()


_Checks: TypeAlias = Generator[tuple[str, Callable[[], Iterator[Finding]]]]

_SAID = 120
"""The characters of an error of the step's own code that are shown."""

_HIDING = (NOT_FINITE.name, UNREPEATABLE.name)
"""The kinds of findings behind which nothing else can be told."""


def _first(trials: Trials) -> _Checks:
    with trials(None, shakes=False) as own:
        seen = own.run(records=True)  # what the step raises of itself is raised
        yield "finite numbers", functools.partial(_finite_findings, seen)
        yield "repetition", functools.partial(_repetition_findings, own)


def _in_float64(trials: Trials) -> _Checks:
    with trials(_type(trials)) as tried:
        for name, check in _CHECKS.items():
            yield name, functools.partial(check, tried)


def _last(trials: Trials, optimizers: Sequence[Optimizer]) -> _Checks:
    yield "precision", functools.partial(precision_findings, trials)
    if optimizers:
        with trials(None, shakes=False) as own:
            yield "update", functools.partial(update_findings, own, optimizers)
            yield "learning", functools.partial(learning_findings, own, optimizers)


_CHECKS: Mapping[str, Callable[[Trial], Iterator[Finding]]] = {
    "gradient": gradient_findings,
    "order": order_findings,
    "samples": crossing_findings,
    "shapes": broadcast_findings,
    "inputs": input_findings,
    "modes": mode_findings,
    "future": future_findings,
    "padding": padding_findings,
}


def _finite_findings(seen: Seen) -> Iterator[Finding]:
    loss = seen.loss.item()
    if math.isfinite(loss):
        return
    blame = first_wrong(seen.calls, seen.calls, lambda x, _: bool(x.isfinite().all()))
    text = f"the loss of one batch is {loss}; {blame}"
    yield NOT_FINITE.of(blame.module, loss, text, "a finite number")


def _repetition_findings(trial: Trial) -> Iterator[Finding]:
    first, second = trial.loss(), trial.loss()
    if abs(first - second) > trial.tolerance * max(abs(first), abs(second)):
        text = f"the loss of one batch, from the same seeds, is {first:.6g}, and then {second:.6g}"
        yield UNREPEATABLE.of("", second, text, f"{first:.6g}")


def _type(trials: Trials) -> torch.dtype | None:
    """The type to try the step in: float64 where that runs, else its own."""
    with trials(torch.float64) as exact:
        try:
            exact.run()
        except Exception:  # noqa: BLE001 - code may have a type of its own; what needs float64 says it
            return None
    return torch.float64


@dataclass
class _Gathered:
    """All that was found, what was tried, and what could not be tried and why."""

    found: list[Finding] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, check: Callable[[], Iterator[Finding]]) -> None:
        """Makes one check."""
        try:
            self.found += check()
        except Untried as reason:
            self.left[name] = str(reason)
        except Exception as error:  # noqa: BLE001 - the step's own code may not take such a batch
            said = f"{error}".partition("\n")[0][:_SAID]
            self.left[name] = f"{type(error).__name__}: {said}"
        else:
            self.tried.append(name)

    def findings(self) -> Findings:
        """The findings, with what was tried."""
        left = "; ".join(f"{name} ({why})" for name, why in self.left.items())
        remark = f"not tried: {left}" if left else "all was tried"
        looked_at = f"one batch, tried for {', '.join(self.tried)}"
        return Findings(by_severity([*_folded(self.found)]), looked_at=looked_at, remark=remark)


def _folded(found: Sequence[Finding]) -> Iterator[Finding]:
    """Findings; samples that see each other follow from those that are mixed up by one module."""
    mixed = {one.module for one in found if one.kind == MIXED_ROWS.name}
    crossing = [one for one in found if one.kind == CROSSING_ROWS.name and one.module in mixed]
    follows = {one.module: one for one in crossing}
    for one in found:
        if one.kind == MIXED_ROWS.name and one.module in follows:
            yield replace(one, consequences=(follows[one.module],))
        elif one not in crossing:
            yield one


def _others(step: Callable[..., Any], model: nn.Module) -> dict[str, nn.Module]:
    """The other modules that a function names, or a function that it names, and so on."""
    found: dict[str, nn.Module] = {}
    waiting, met = [step], set[int]()
    while waiting:
        function = waiting.pop()
        if id(function) in met:
            continue
        met.add(id(function))
        for name, value in _named_by(function).items():
            if isinstance(value, nn.Module):
                found.setdefault(name, value)
            elif inspect.isroutine(value):
                waiting.append(value)
    return {name: module for name, module in found.items() if module is not model}


def _named_by(function: Callable[..., Any]) -> dict[str, Any]:
    """All that a function of Python finds by name, and that its object holds."""
    function = inspect.unwrap(getattr(function, "func", function))
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        return {}
    held = inspect.getclosurevars(function)
    owner = getattr(function, "__self__", None)
    return {**held.globals, **held.nonlocals, **getattr(owner, "__dict__", {})}
