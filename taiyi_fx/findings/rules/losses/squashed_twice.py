"""Losses that squash what is squashed already, or nothing of what they should."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.squashed import How, Squashed
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.loss import guess_of

SQUASHED = Kind(
    "squashed_loss",
    "warning",
    "Leave that out, and give the loss what comes before it: cross_entropy applies a softmax "
    "itself, and binary_cross_entropy_with_logits a sigmoid, to numbers of any size and sign",
)
_FEATURES = (
    "Leave the softmax out: cross_entropy applies one to the logits, and features before the last "
    "layer want an activation such as relu"
)
_ONCE = (
    "Leave one of the two out: the model ends in one, or the loss applies one itself, as losses of "
    "logits do, and many of overlaps"
)
_SCALE = (
    "Multiply the cosines by a scale, 10 to 30 or a parameter, or divide them by a temperature, "
    "0.07 or so, before the loss"
)
_DIVIDE = (
    "The factor may be the wrong way round: multiply the cosines by a scale, 10 to 30 or a "
    "parameter, or divide them by a temperature below 1, 0.07 or so"
)
_RATES = (
    "Give it log_input=False, or leave that function out: what the model returns is then the "
    "logarithm of the rate"
)
UNSQUASHED = Kind(
    "unsquashed_loss",
    "alert",
    "Give nll_loss or ctc_loss what log_softmax returns; or take cross_entropy in the place of "
    "nll_loss, which applies it to logits",
)
_OVERLAP = "Take the sigmoid of it first, or a softmax over the classes: an overlap is of shares"
_LOG = "Give kl_div what log_softmax returns as its first argument, and probabilities as its second"
CLASS_AXIS = Kind(
    "class_axis",
    "alert",
    "Take log_softmax over the axis of the classes, which is axis 1 of what nll_loss is given, and "
    "the last of what ctc_loss is given; or cross_entropy of the logits",
)


def squashed_twice(evidence: Evidence) -> Iterator[Finding]:
    """Losses that squash what the model has squashed already, or nothing of what they should."""
    for loss in evidence.logged.losses:
        known = evidence.logged.of_loss(loss)
        if known.squashed is not None:
            yield _TOLD[known.squashed.how](loss, known.squashed, evidence)
        elif known.graph is not None and known.graph.overlaps:
            yield _of_overlap(loss, known.graph.overlaps[0])


def _of_logarithms(loss: Watched, given: Squashed, _: Evidence) -> Finding:
    text = (
        f"{loss.quantity!r} takes logarithms of probabilities, and is given numbers that are none: "
        "log_softmax is missing"
    )
    advice = _LOG if given.how == "divergence" else UNSQUASHED.advice
    return UNSQUASHED.at(loss, 0, text, "what log_softmax returns", module="", advice=advice)


def _of_other_axis(loss: Watched, _: Squashed, __: Evidence) -> Finding:
    text = f"{loss.quantity!r} takes log_softmax over another axis than that of the classes"
    return CLASS_AXIS.at(loss, 0, text, "the axis of the classes", module="")


def _of_shares(loss: Watched, _: Squashed, evidence: Evidence) -> Finding:
    text = (
        f"the layer that returns the logits of {loss.quantity!r} is given what a softmax returns: "
        "shares that add up to 1, of which it can make little difference"
    )
    graph = evidence.logged.of_loss(loss).graph
    module = graph.logits.module if graph and graph.logits else ""
    return SQUASHED.at(loss, 0, text, "features", module=module, advice=_FEATURES)


def _of_cosines(loss: Watched, given: Squashed, evidence: Evidence) -> Finding:
    guess, classes = guess_of(loss, evidence)
    factor = given.factor
    least = float(np.log1p((classes - 1) * np.exp(-2.0 * factor)))
    times = f" times {factor:.3g}" if factor != 1 else ""
    text = (
        f"{loss.quantity!r} takes logits, and is given cosines{times}, between {-factor:.3g} and "
        f"{factor:.3g}: it cannot fall below {least:.3g}, where a guess among {classes} classes "
        f"costs {guess:.3g}"
    )
    advice = _DIVIDE if factor < 1 else _SCALE
    return SQUASHED.at(loss, 0, text, "logits", module="", advice=advice)


def _of_rates(loss: Watched, given: Squashed, _: Evidence) -> Finding:
    text = (
        f"{loss.quantity!r} takes logarithms of rates, as poisson_nll_loss does by default, and is "
        f"given what {given.function} returns, which are rates"
    )
    others = {"module": "", "functions": (given.function,), "advice": _RATES}
    return SQUASHED.at(loss, 0, text, "logarithms", **others)


def _of_twice(loss: Watched, given: Squashed, _: Evidence) -> Finding:
    once = given.function
    text = f"on the way to {loss.quantity!r}, a {once} is given what a {once} returns"
    others = {"module": "", "functions": (once,), "advice": _ONCE}
    return SQUASHED.at(loss, 0, text, "logits", **others)


def _of_squashed(loss: Watched, given: Squashed, evidence: Evidence) -> Finding:
    """Names the module that squashed it, if that is the model's last."""
    name = given.function
    graph, module = evidence.logged.of_loss(loss).graph, _last_of(name, evidence)
    function = graph.squashing if graph else ""
    of = f"is {function} of" if function else "takes logits, and is given"
    text = f"{loss.quantity!r} {of} what {f'{module!r}, a {name},' if module else name} returns"
    return SQUASHED.at(loss, 0, text, "logits", module="", functions=(name,))


def _of_overlap(loss: Watched, module: str) -> Finding:
    made = f"what {module!r} returns" if module else "what a layer returns"
    text = (
        f"{loss.quantity!r} has a ratio of sums, as Dice's overlap is, of {made} as it is: of "
        "numbers of any size and sign, which are no shares"
    )
    return UNSQUASHED.at(loss, 0, text, "shares", module=module, advice=_OVERLAP)


_TOLD: Mapping[How, Callable[[Watched, Squashed, Evidence], Finding]] = {
    "squashed": _of_squashed,
    "shares": _of_shares,
    "cosines": _of_cosines,
    "twice": _of_twice,
    "rates": _of_rates,
    "divergence": _of_logarithms,
    "raw": _of_logarithms,
    "axis": _of_other_axis,
}


def _last_of(name: str, evidence: Evidence) -> str:
    """The model's last module, if it is one of a function of torch: a `Sigmoid`; else empty."""
    last = evidence.flow.order[-1] if evidence.flow.order else ""
    own = evidence.model.attributes.get(last.partition("@")[0])
    return last if own and own.kind.rpartition(".")[2].lower() == name else ""
