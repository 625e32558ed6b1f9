"""Norms of a user's own that do not return what a norm returns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from taiyi_fx.findings.facts.attributes import Attributes
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.watched import Watched, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_NORM = re.compile(r"(Layer|RMS|Rms|Batch|Group|Instance)Norm\w*$")
_OF_TORCH = "torch."
_FEW = 2
_EXACT = 1e-6
_NEAR = 1.25
"""The factor within which two sizes are one."""
_OTHER = 1.6
"""The factor beyond which a size is not 1."""
_LEAST = 0.02
"""Of an input, below which what is added to a variance counts."""

ODD_NORM = Kind(
    "odd_norm",
    "warning",
    "Divide by the deviation, (x.var(-1) + eps).sqrt(), or by the root of the mean square; torch's "
    "own nn.LayerNorm and nn.RMSNorm do so",
)


class _Sizes(NamedTuple):
    """The sizes of a norm's input and output at the first step."""

    site: Watched
    given: float
    returned: float


def odd_norms(evidence: Evidence) -> Iterator[Finding]:
    """Norms with gains of 1 that return inputs over their variance, or as they are.

    A norm returns the size of its gain, whatever it is given.
    """
    if not evidence.is_from_the_start:
        return
    known = [one for one in _sizes(evidence) if not 1 / _OTHER < one.given < _OTHER]
    if len(known) < _FEW:
        return
    for power, why in ((-1, "divide by the variance, in place of its root"), (1, "do not divide")):
        if all(_is_near(one.returned, one.given**power) for one in known):
            first = max(known, key=lambda one: max(one.returned, 1 / one.returned))
            text = (
                f"{names_of([one.site for one in known])}, with gains of 1: {first.site.module!r} "
                f"returns {first.returned:.3g} of an input of {first.given:.3g} in size, and so do "
                f"the others: they {why}"
            )
            value = first.returned
            yield ODD_NORM.at(known[0].site, 0, text, "an output of 1 in size", value=value)


def _sizes(evidence: Evidence) -> Iterator[_Sizes]:
    given = evidence.by_module("InputRMS")
    gains = evidence.by_module("ParameterRMS.weight")
    for one in evidence.of_quantity("OutputRMS"):
        own = evidence.model.attributes.get(one.name)
        is_own = own is not None and not own.kind.startswith(_OF_TORCH) and _NORM.search(own.kind)
        if not is_own or one.module not in given or one.module not in gains:
            continue
        is_one = abs(gains[one.module].values[0] - 1) < _EXACT
        if is_one and given[one.module].values[0] > _LEAST and one.values[0] > 0:
            yield _Sizes(one, float(given[one.module].values[0]), float(one.values[0]))


_SMALL, _MOST = 0.2, 0.5
"""Gains far below 1, and the share of all norms that has them by mistake: a few are on purpose."""

SMALL_GAINS = Kind(
    "odd_norm",
    "warning",
    "Begin with gains of 1: what initialises all modules with a weight, as model.apply does, takes "
    "in norms, too; ask for isinstance(module, nn.Linear) there",
)


def small_gains(evidence: Evidence) -> Iterator[Finding]:
    """Norms that begin with gains far below 1, as weights of linear layers do, most of a model.

    What they return is as small: of a norm whose weight is an offset from 1 it is not.
    """
    outputs = evidence.by_module("OutputRMS")
    known = [
        (one, float(one.values[0]), float(outputs[one.module].values[0]))
        for one in evidence.of_quantity("ParameterRMS.weight")
        if one.module in outputs and _is_norm(one.name, evidence)
    ]
    small = [(s, g) for s, g, size in known if 0 < g < _SMALL and _is_near(size, g)]
    if evidence.is_from_the_start and len(small) >= _FEW and len(small) > _MOST * len(known):
        first, gain = small[0]
        text = (
            f"{names_of([s for s, _ in small])} begin with gains of {gain:.2g}, and return numbers "
            "of that size, where norms begin with 1"
        )
        yield SMALL_GAINS.at(first, 0, text, "gains of 1", value=gain)


def _is_norm(name: str, evidence: Evidence) -> bool:
    own = evidence.model.attributes.get(name)
    return own is not None and _NORM.search(own.kind) is not None


def _is_near(a: float, b: float) -> bool:
    return 1 / _NEAR < a / b < _NEAR


SINGLE = Kind(
    "odd_norm",
    "alert",
    "Normalise over several numbers: fewer groups than channels where maps are of one place, or a "
    "LayerNorm over the features; or leave the norm out behind a pooling",
)


def single_norms(evidence: Evidence) -> Iterator[Finding]:
    """Norms of groups of one number, each of which comes to be 0 before gain and bias."""
    for name, own in evidence.model.attributes.items():
        if not own.kind.startswith(_OF_TORCH):
            continue
        if own.kind.endswith("LayerNorm") and _is_of_one(own):
            of = "a feature alone"
        elif own.kind.endswith("GroupNorm") and (groups := _single_groups(name, own, evidence)):
            of = f"{groups} groups of one channel of one place"
        else:
            continue
        site = next((s for s in evidence.series if s.name == name), None)
        if site is None:
            continue
        text = (
            f"{name!r} normalises each number by itself, {of}: it returns its bias, whatever it is "
            "given"
        )
        yield SINGLE.at(site, 0, text, "groups of several numbers", module=name)


def _is_of_one(own: Attributes) -> bool:
    shape = own.numbers.get("normalized_shape")
    return isinstance(shape, tuple) and all(n == 1 for n in shape)


def _single_groups(name: str, own: Attributes, evidence: Evidence) -> int:
    """The number of a GroupNorm's groups, if each is of one channel of one place; else 0."""
    groups, channels = (own.numbers.get(f"num_{of}") for of in ("groups", "channels"))
    sizes = evidence.flow.shape_before(name).split("\N{MULTIPLICATION SIGN}")
    is_single = groups == channels and len(sizes) > 1 and all(n == "1" for n in sizes[2:])
    return groups if isinstance(groups, int) and is_single else 0
