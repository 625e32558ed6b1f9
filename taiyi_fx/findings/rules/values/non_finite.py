"""The first NaN or Inf of a training: the module where it arose, not those that it reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.not_finite import MadeBy
from taiyi_fx.findings.facts.overflow import growth_of_weights, overflows
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_WHERE = {
    "parameter": "the parameters of",
    "forward": "what passes",
    "backward": "the gradients of",
    "": "the logged numbers of",
}
_ADVICE = {
    "parameter": "The parameter itself is not finite: look at the step before (a gradient that was "
    "not finite, a step that was too large), and clip or skip such gradients",
    "forward": "Look at what this module computes: a division by zero, the logarithm or root of a "
    "number below zero, or an overflow in half precision",
    "backward": "Forwards were finite: look for a root, a norm or a division at zero, whose "
    "derivative is infinite, between this module and the loss",
    "": "All recorded values of modules were finite: the loss function itself, or its targets, "
    "make it; ask for NonFinite of all modules to see more",
}
# At one step a parameter comes before what is computed with it, and that before gradients of it.
_ORDER = ("parameter", "forward", "", "backward")
_UNREAD = (
    "Between two readings no numbers of modules are known: taiyi_fx.Recorder runs such a step "
    "again and names the operation; raise_cadence() has each step read"
)
_RUN_AGAIN = (
    "Look at this line, and at what it takes: monitor.recorder.replays has that, and "
    "taiyi-fx replay runs it under a debugger"
)
_FUNCTIONS = "a division by zero, a logarithm or root of a number below zero, an overflow"
_DATA = "Look at the batch of this step: a missing value, a division by a deviation of 0"
_OVERFLOW = (
    "Look at what made weights grow, rather than at this module: a learning rate that is too "
    "large, gradients that are summed or not clipped, a loss without a bound"
)
_INPUT = "Input"
"""The beginning of the names of quantities of a module's input."""

NON_FINITE = Kind("non_finite", "alert", _ADVICE["forward"])


def first_step(evidence: Evidence) -> int | None:
    """The first step with a NaN or Inf; None if there is none."""
    return min((int(s.steps[bad.argmax()]) for s, bad in evidence.bad), default=None)


def non_finite(evidence: Evidence) -> Iterator[Finding]:
    """The site where NaN or Inf arose first."""
    step = first_step(evidence)
    if step is None:
        return
    bad = [s for s, mask in evidence.bad if step in s.steps[mask]]
    direction = next(d for d in _ORDER if any(s.direction == d for s in bad))
    of_direction = [s for s in bad if s.direction == direction]
    # A norm of all gradients has the NaN of any of them.
    of_modules = [s for s in of_direction if s.module or s.quantity.startswith("Output")]
    of_direction = of_modules or of_direction
    if direction == "parameter" and len({s.module for s in of_direction}) > 1:
        yield _of_parameters(of_direction, step, evidence)
        return
    # Backward goes the other way.
    first = max if direction == "backward" else min
    site = first(of_direction, key=lambda s: _place(s, evidence))
    if (made := evidence.run_again.get(step)) is not None:
        yield _as_run_again(made, site, step)
        return
    where, advice = f"{_WHERE[direction]} {_named(site.module)}", _ADVICE[direction]
    if direction == "forward" and overflows(evidence, site.module, step):
        times = growth_of_weights(evidence, step)
        where += (
            f", which overflows: half of all weights are {times:.3g} times as large as at first"
        )
        advice = _OVERFLOW
    elif direction == "forward":
        where, advice = _origin(site, where, step, evidence)
    text = f"step {step}: the first NaN or Inf is in {where}"
    text += _followed_by(site, step, evidence)
    if not direction and not _is_read(step, evidence):
        found = _seen_in_tensors(site, step, evidence)
        if found is not None:
            yield found
            return
        text += ", and no module was read at this step"
        advice = _UNREAD
    yield NON_FINITE.at(site, _index(site, step), text, "finite", advice=advice)


def _as_run_again(made: MadeBy, site: Watched, step: int) -> Finding:
    """The operation itself, which numbers of modules only surround."""
    of = f" of {made.module!r}" if made.module else ""
    text = (
        f"step {step}: the first NaN or Inf is made by {made.operation}{of} in {made.phase} "
        f"({made.place}), as the step showed that was run again"
    )
    others = {"module": made.module, "advice": _RUN_AGAIN}
    return NON_FINITE.at(site, _index(site, step), text, "finite", **others)


def _seen_in_tensors(site: Watched, step: int, evidence: Evidence) -> Finding | None:
    """The place that the tensors of the model told when the NaN was seen; None if all or none are.

    Running statistics are those of the module's input, which is not finite from there on.
    """
    seen = evidence.not_finite.get(step)
    if seen is None:
        return None
    place = evidence.modules
    known = {s.module for s in evidence.series if s.direction == "parameter"}
    odd = sorted((name for name in seen.parameters if name in place), key=lambda name: place[name])
    i = _index(site, step)
    if odd and known - {*odd}:
        behind = [place[name] for name in known - {*odd, ""}]
        is_by_gradient = len(odd) > 1 and min(behind, default=-1) > place[odd[-1]]
        module, advice = (odd[-1], "backward") if is_by_gradient else (odd[0], "parameter")
        text = f"step {step}: the first NaN or Inf is in the parameters of {module!r}"
        return NON_FINITE.at(site, i, text, "finite", module=module, advice=_ADVICE[advice])
    norms = sorted((name for name in seen.buffers if name in place), key=lambda name: place[name])
    fine = [place[name] for name in seen.finite_buffers if name in place]
    if not odd and norms and min(fine, default=len(place)) < place[norms[0]]:
        text = (
            f"step {step}: the first NaN or Inf is in what {norms[0]!r} is given, as its running "
            "statistics tell; those before it are finite"
        )
        return NON_FINITE.at(site, i, text, "finite", module=norms[0], advice=_ADVICE["forward"])
    return None


def _of_parameters(bad: Sequence[Watched], step: int, evidence: Evidence) -> Finding:
    """The place of several weights that are not finite, as a gradient makes them.

    One that is not finite from some place on back makes those of all before it so: the last of
    them is the one to look at, if those behind it are finite.
    """
    odd = {s.module for s in bad}
    known = (s for s in evidence.series if s.direction == "parameter" and s.module)
    every = {s.module for s in known if step in s.steps}
    place = evidence.modules
    last, first = (f(bad, key=lambda s: place[s.module]) for f in (max, min))
    text = f"step {step}: the first NaN or Inf is in the parameters of "
    if odd == every:
        text += f"all {len(odd)} modules at once: the loss or a gradient of the step before was"
        others = {"module": "", "advice": _UNREAD}
        return NON_FINITE.at(first, _index(first, step), text, "finite", **others)
    behind = every - odd
    if min(place[module] for module in behind) > place[last.module]:
        text += (
            f"{last.module!r} and of {len(odd) - 1} more before it, and of none behind it: no "
            "gradient was finite from there on back at the step before"
        )
        advice = _ADVICE["backward"]
        return NON_FINITE.at(last, _index(last, step), text, "finite", advice=advice)
    text += repr(first.module)
    advice = _ADVICE["parameter"]
    return NON_FINITE.at(first, _index(first, step), text, "finite", advice=advice)


def _index(s: Watched, step: int) -> int:
    return int(np.flatnonzero(s.steps == step)[-1])


def _is_read(step: int, evidence: Evidence) -> bool:
    return any(step in s.steps for s in evidence.series if s.direction == "forward")


def _place(s: Watched, evidence: Evidence) -> tuple[int, bool, int]:
    """The place in the order of a forward: a module is given something before it makes of it."""
    is_made = s.direction != "parameter" and not s.quantity.startswith(_INPUT)
    last, place = evidence.place(s.module, at_end=is_made)
    return last, is_made, place


def _origin(site: Watched, where: str, step: int, evidence: Evidence) -> tuple[str, str]:
    """The place where a value arose, as far as the module's input tells, with advice."""
    if not site.quantity.startswith(_INPUT):
        given = [s for s in evidence.series if s.module == site.module and _is_given(s, step)]
        is_there = ", whose input is finite: it arises there" if given else ""
        return f"{where}{is_there}", _ADVICE["forward"]
    functions = ", ".join(evidence.flow.before_module(site.module))
    inputs = " and ".join(map(repr, evidence.flow.inputs_before(site.module)))
    if inputs and not evidence.flow.modules_before(site.module, evidence.called):
        if not functions:
            rows = _rows(site, step, evidence)
            given = f"; {site.module!r} is given it as it is"
            return f"the model's input {inputs} already{rows}{given}", _DATA
        return (
            f"{where}, which is given the model's input {inputs} by {functions}: it is in the "
            "data, or arises in these functions"
        ), f"{_DATA}; at these functions, {_FUNCTIONS}"
    if evidence.modules[site.module] == _first_place(evidence):
        return f"{where}, which is given it: it is in the data", _DATA
    return (
        f"{where}, which is given it{f' by {functions}' if functions else ''}: it arises between "
        "the modules before it and this one"
    ), f"Look at the functions that the forward of the model calls between these: {_FUNCTIONS}"


def _rows(site: Watched, step: int, evidence: Evidence) -> str:
    """The rows of a linear layer's input with a NaN or Inf, each of which makes a row of them.

    All those of a step, whose batches may be several: how many rows these have is not known.
    """
    own = evidence.model.attributes.get(site.name)
    count = evidence.by_module("NonFinite").get(site.module)
    if own is None or not own.features[1] or count is None or step not in count.steps:
        return ""
    rows, rest = divmod(int(count.values[_index(count, step)]), own.features[1])
    return f", in {rows} of its rows" if rows and not rest else ""


def _followed_by(site: Watched, step: int, evidence: Evidence) -> str:
    """The weights that are not finite later, as the end of a sentence: no second place of it."""
    later = [
        (int(s.steps[mask.argmax()]), s.module)
        for s, mask in evidence.bad
        if s.direction == "parameter" and s.module and site.direction != "parameter"
    ]
    modules = {module for _, module in later}
    if not modules:
        return ""
    named = f"{len(modules)} modules" if len(modules) > 1 else repr(*modules)
    return (
        f"; the weights of {named} are so from step {min(later)[0]} on, as the "
        "optimizer's step by its gradient made them"
    )


def _first_place(evidence: Evidence) -> int:
    return min(evidence.modules[s.module] for s in evidence.series if s.direction == "forward")


def _is_given(s: Watched, step: int) -> bool:
    return s.quantity.startswith(_INPUT) and step in s.steps


def _named(module: str) -> str:
    return repr(module) if module else "the model itself"
