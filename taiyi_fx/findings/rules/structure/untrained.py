"""Backbones that are frozen though nobody has trained them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.parameters import parameter_of
from taiyi_fx.findings.facts.watched import Watched, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FEW = 3
"""Frozen modules below which they may be features that are drawn at random on purpose."""
_EXACT = 1e-6
_SIGMAS, _DEVIATION = 4.0, 0.447
"""The deviation of the root mean square of n uniform numbers, as a share of it, times root n."""
_MATRIX = 2
_OF_TUNING, _LONG = 3e-5, 100
"""The largest learning rate of Adam that a trained model is tuned by, and steps of no warm-up."""

UNTRAINED_BACKBONE = Kind(
    "untrained_backbone",
    "warning",
    "Load the trained weights before the model is frozen, and look at what load_state_dict returns "
    "with strict=False: names that do not fit are passed over; or do not freeze it",
)


TUNED_FROM_NOTHING = Kind(
    "untrained_backbone",
    "note",
    "Load the trained weights, from_pretrained and not from_config, and look at what "
    "load_state_dict returns; from the start, transformers take rates of 1e-4 to 1e-3",
)


def untrained_backbones(evidence: Evidence) -> Iterator[Finding]:
    """Frozen modules before all that are trained, whose parameters are as torch makes them.

    Offsets of exactly 0, gains of exactly 1, or the weights that layers of torch begin with: no
    training leaves all of them so.
    """
    weights = evidence.parameters.weights
    frozen = [s for s in weights.values() if s.name in evidence.model.frozen]
    trained = [s for s in weights.values() if s.name not in evidence.model.frozen]
    if len(frozen) < _FEW or not trained or max(len(s.values) for s in trained) < STEPS:
        return
    place = evidence.modules
    first = min(trained, key=lambda s: place[s.module])
    names = {s.module for s in frozen}
    # A teacher beside what is trained may be drawn at random, or follow it.
    feeds = bool(evidence.flow.modules_before(first.module, names))
    stays = all((s.values == s.values[0]).all() for s in frozen)
    if max(place[name] for name in names) > place[first.module] or not (feeds and stays):
        return
    signs = [_is_as_made(s, evidence) for s in frozen]
    if False not in signs and signs.count(True) >= _FEW:
        text = (
            f"{names_of(frozen)}: frozen, and their parameters are as they were made, with offsets "
            "of 0, gains of 1 or the weights that torch draws: what is trained behind them gets "
            "features of chance"
        )
        yield UNTRAINED_BACKBONE.at(frozen[0], 0, text, "trained weights")


def tuned_from_nothing(evidence: Evidence) -> Iterator[Finding]:
    """A model that is as it was made, trained by a rate for tuning one that was trained before."""
    rates = [float(s.values.max()) for s in evidence.rates if len(s.values)]
    is_adam = {group.rule for group in evidence.optimizer.group_settings} == {"adam"}
    is_long = evidence.is_from_the_start and evidence.last_step >= _LONG
    if not (rates and is_adam and is_long) or max(rates) > _OF_TUNING or evidence.model.frozen:
        return
    every = [*evidence.parameters.weights.values()]
    signs = [_is_as_made(s, evidence) for s in every]
    if False not in signs and signs.count(True) >= 2 * _FEW:
        text = (
            f"parameters are as they were made, with offsets of 0 and gains of 1, and the learning "
            f"rate is {max(rates):.2g} at most, as to tune a trained model"
        )
        yield TUNED_FROM_NOTHING.at(every[0], 0, text, "trained weights", module="")


def _is_as_made(weight: Watched, evidence: Evidence) -> bool | None:
    """True for parameters as they are made, False for others; None where nothing tells."""
    sizes = {
        parameter_of(s): float(s.values[0])
        for s in evidence.of_each("ParameterRMS")
        if s.module == weight.module
    }
    own = evidence.model.attributes.get(weight.name)
    shape = dict(own.sizes).get("", ()) if own else ()
    signs = [sizes["bias"] == 0] if "bias" in sizes else []
    if len(shape) == 1 and "weight" in sizes:
        signs.append(abs(sizes["weight"] - 1) < _EXACT)
    elif len(shape) >= _MATRIX and "weight" in sizes and not any(signs):
        is_drawn = _is_of_torch(sizes["weight"], shape)
        signs = [is_drawn] if signs or is_drawn else []
    return all(signs) if signs else None


def _is_of_torch(size: float, shape: tuple[int, ...]) -> bool:
    """True for the size of uniform numbers up to one over the root of a layer's inputs."""
    usual = 1 / np.sqrt(3 * prod(shape[1:]))
    return bool(abs(size / usual - 1) < _SIGMAS * _DEVIATION / np.sqrt(prod(shape)))
