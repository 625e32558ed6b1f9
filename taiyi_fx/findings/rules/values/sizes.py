"""Parameters of a size that no usual initialisation or training gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from taiyi_fx.findings.blocks import common_block
from taiyi_fx.findings.facts.attributes import is_table
from taiyi_fx.findings.facts.evidence import Evidence, is_near
from taiyi_fx.findings.facts.parameters import parameter_of
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_LARGE = 5.0
_GAIN = 20.0
"""Of a gain or an embedding, whose own size is that of what it gives: trained ones are larger."""
_PASSES = 3.0
"""The factor by which a usual matrix makes what passes it larger at most."""
BIAS = 8.0
"""Of a bias: those before a gate begin at the logarithm of rare odds, as focal loss begins at -4.6,
and Mamba's step sizes at -2.3 to -6.9."""
_ALONE = 1000.0
"""Of a single number, such as a temperature, or the bias of all pairs' logits, -10 in SigLIP."""
_APART = 10.0
_WILD_GAIN = 12.0
"""Of a matrix; usual initialisations give 0.5 to 2."""
_WIDE, _WIDTH = 4.0, 8
"""The same of most matrices of a model at once, and the features of which such a one is given."""
_FEW, _MOST = 3, 0.7
_SMALL = 4e-4
_GROWN = 3.0
"""What grows from nothing leaves it by this factor: that is how a branch begins."""

WILD_PARAMETER = Kind(
    "wild_parameter",
    "alert",
    "Look at how this parameter is initialised or loaded: the elements of weights are usually "
    "between 0.001 and 1 in size",
)
_DRAWN = (
    "Draw weights with a deviation of about one over the root of a layer's inputs, as nn.Linear "
    "and nn.init.kaiming_normal_ do, not by torch.randn or normal_() as they are"
)


def wild_parameters(evidence: Evidence) -> Iterator[Finding]:
    """Parameters whose elements began far too large or too small."""
    outputs = {s.module: median(s.values) for s in evidence.of_quantity("OutputRMS")}
    given = {s.module: median(s.values) for s in evidence.of_quantity("InputRMS")}
    for one in evidence.of_each("ParameterRMS"):
        if _is_scaled_down(one, given, outputs, evidence):
            continue
        if _is_large_matrix(one, outputs, evidence):
            gain = float(one.values[0]) * evidence.parameters.count_of(one) ** 0.25
            text = (
                f"the weight of {one.module!r} begins so large that it makes what passes it about "
                f"{gain:.3g} times larger"
            )
            yield WILD_PARAMETER.at(one, 0, text, "about 1")
            continue
        size, name = float(one.values[0]), parameter_of(one)
        if evidence.parameters.count_of(one) == 1 and np.abs(one.values).max() < _ALONE:
            continue
        is_gain = "bias" not in name and is_near(outputs.get(one.module, 0.0), size)
        is_gain = is_gain or is_table(one.name, evidence.model.attributes)
        if not is_gain and _becomes_large(one, evidence):
            last = float(one.values[-1])
            text = f"the elements of {one.module!r}.{name} grow to {last:.3g} in size"
            i = int(np.flatnonzero(np.abs(one.values) >= _LARGE)[0])
            others = {"value": last, "severity": "warning"}
            yield WILD_PARAMETER.at(one, i, text, "between 0.001 and 1", **others)
            continue
        if size < _limit(name, is_gain=is_gain) and not ("weight" in name and _is_small(one)):
            continue
        text = (
            f"the elements of {one.module!r}.{name} are {size:.3g} in size at step {one.steps[0]}"
        )
        yield WILD_PARAMETER.at(one, 0, text, "between 0.001 and 1")
    yield from _drawn_too_wide(evidence)


def _drawn_too_wide(evidence: Evidence) -> Iterator[Finding]:
    """Most matrices of a model drawn so wide that each makes what passes it several times larger.

    As of `torch.randn`, whose elements do not get smaller with the number of inputs. Where a scale
    within the layer takes that back, what the layer returns is of the size of what it is given.
    """
    if not evidence.is_from_the_start:
        return
    matrices = [one for one in evidence.of_each("ParameterRMS") if _inputs(one, evidence)]
    given, returned = (
        {s.module: float(s.values[0]) for s in evidence.of_quantity(name)}
        for name in ("InputRMS", "OutputRMS")
    )
    wide = [one for one in matrices if _is_drawn_wide(one, given, returned, evidence)]
    if len(wide) < max(_FEW, _MOST * len(matrices)):
        return
    gain = median([float(one.values[0]) * _inputs(one, evidence) ** 0.5 for one in wide])
    text = (
        f"the weights of {names_of(wide)} begin with elements of {wide[0].values[0]:.3g} in size: "
        f"each makes what passes it about {gain:.3g} times larger"
    )
    others = {"module": common_block([one.module for one in wide]), "severity": "warning"}
    yield WILD_PARAMETER.at(wide[0], 0, text, "about 1", value=gain, advice=_DRAWN, **others)


def _is_drawn_wide(
    one: Watched, given: Mapping[str, float], returned: Mapping[str, float], evidence: Evidence
) -> bool:
    """True for a matrix by which a layer returns several times what it is given, at the first."""
    before, after = given.get(one.module, 0.0), returned.get(one.module, 0.0)
    if not before > 0:
        return False
    gain = float(one.values[0]) * _inputs(one, evidence) ** 0.5
    return gain >= _WIDE and after >= _WIDE / 2 * before


def _inputs(one: Watched, evidence: Evidence) -> int:
    """The number of features that a linear layer is given, if they are many; else 0."""
    own = evidence.model.attributes.get(one.name)
    width = own.features[0] if own and one.quantity.endswith(".weight") else 0
    return width if width >= _WIDTH else 0


def _is_scaled_down(
    one: Watched, given: Mapping[str, float], outputs: Mapping[str, float], evidence: Evidence
) -> bool:
    """True for a large weight whose module makes what passes it no larger, or may do so unseen.

    As where its forward scales the weight down, by which it learns more slowly: the mapping of
    StyleGAN has weights of 100 that are multiplied by 0.01 (arXiv 1710.10196). Of a class that is
    not torch's, only what it returns tells.
    """
    if (
        "weight" not in one.quantity
        or evidence.parameters.is_vector(one.module)
        or one.values[0] < _LARGE
    ):
        return False
    if one.module not in outputs:
        own = evidence.model.attributes.get(one.name)
        return own is not None and not own.kind.startswith("torch.")
    return 0 < outputs[one.module] <= _PASSES * given.get(one.module, 0.0)


def _limit(name: str, *, is_gain: bool) -> float:
    """The size from which a parameter is wild."""
    if is_gain:
        return _GAIN
    return BIAS if name == "bias" else _LARGE


def _is_large_matrix(one: Watched, outputs: Mapping[str, float], evidence: Evidence) -> bool:
    """True for a weight that makes what passes it far larger, as its elements and size tell.

    Of a matrix, the size of its elements times the root of its inputs is the factor on the way
    forward, and of its outputs on the way back; the fourth root of all elements is their mean.
    """
    size, name = float(one.values[0]), parameter_of(one)
    n = evidence.parameters.count_of(one)
    is_gain = is_near(outputs.get(one.module, 0.0), size) or one.module in evidence.norms
    is_gain = is_gain or is_table(one.name, evidence.model.attributes)
    return "weight" in name and not is_gain and size * n**0.25 >= _WILD_GAIN


def _becomes_large(one: Watched, evidence: Evidence) -> bool:
    """True for a parameter that grows to a wild size, where most others stay far below."""
    last = median(one.last_half)
    if one.values[0] >= _LARGE or not last >= _LARGE:
        return False
    every = [median(s.last_half) for s in evidence.of_each("ParameterRMS")]
    return last >= _APART * median(every)


def _is_small(one: Watched) -> bool:
    return 0 < one.values[0] < _SMALL and one.values.max() < _GROWN * one.values[0]
