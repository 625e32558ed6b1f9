"""Parameters of a size that no usual initialisation or training gives."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.robust import median
from taiyi_fx.findings.watched import Watched

_LARGE = 5.0
_GAIN = 20.0
"""Of a gain or an embedding, whose own size is that of what it gives: trained ones are larger."""
_SMALL = 4e-4
_GROWN = 3.0
"""What grows from nothing leaves it by this factor: that is how a branch begins."""

WILD_PARAMETER = Kind(
    "wild_parameter",
    "alert",
    "Look at how this parameter is initialised or loaded: the elements of weights are usually "
    "between 0.001 and 1 in size",
)


def wild_parameters(evidence: Evidence) -> Iterator[Finding]:
    """Parameters whose elements began far too large or too small."""
    outputs = {s.module: median(s.values) for s in evidence.of_quantity("OutputRMS")}
    for one in evidence.of_each("ParameterRMS"):
        size, name = float(one.values[0]), one.quantity.partition(".")[2]
        may_be_gain = size > 0 and "bias" not in name
        is_gain = may_be_gain and 0.8 < outputs.get(one.module, 0.0) / size < 1.25
        if size < (_GAIN if is_gain else _LARGE) and not ("weight" in name and _is_small(one)):
            continue
        text = (
            f"the elements of {one.module!r}.{name} are {size:.3g} in size at step {one.steps[0]}"
        )
        yield WILD_PARAMETER.at(one, 0, text, "between 0.001 and 1")


def _is_small(one: Watched) -> bool:
    return 0 < one.values[0] < _SMALL and one.values.max() < _GROWN * one.values[0]
