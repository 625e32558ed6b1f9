"""NaN that is the size of nothing: numbers of tensors and parameters without elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.facts.watched import Steps, Watched, at_common_steps

_COUNTS = {
    "Output": ("NonFinite", "OutputAbsMax", "OutputNorm"),
    "OutputGrad": ("OutputGradNonFinite", "OutputGradAbsMax", "OutputGradNorm"),
    "Input": ("InputNonFinite", "InputAbsMax"),
}
"""Numbers of each tensor that are 0 of no elements, where a mean is NaN; of a NaN none is 0."""


def of_elements(series: Sequence[Watched], modules: Mapping[str, Any]) -> list[Watched]:
    """The series but those of parameters without elements, and of modules with such a weight.

    They have neither a size nor a gradient, and what such a module returns is its bias.

    Args:
        series: All series.
        modules: The modules by name. A run is read without torch, hence `Any`.
    """
    empty = {
        (name, own)
        for name, module in modules.items()
        for own, parameter in module._parameters.items()
        if parameter is not None and _is_empty(parameter)
    }
    own = ((s, s.quantity.partition(".")[2]) for s in series)
    return [s for s, part in own if empty.isdisjoint([(s.name, "weight"), (s.name, part)])]


def _is_empty(parameter: Any) -> bool:
    is_to_come = hasattr(type(parameter), "cls_to_become")
    return not is_to_come and parameter.numel() == 0


def empty_steps(series: Sequence[Watched]) -> dict[tuple[str, str], Steps]:
    """The steps at which a tensor of a module had no elements, by the tensor and the module."""
    known = {(s.quantity, s.module): s for s in series}
    found: dict[tuple[str, str], Steps] = {}
    for tensor, counts in _COUNTS.items():
        for one in (s for s in series if s.quantity == f"{tensor}RMS" and np.isnan(s.values).any()):
            own = (known[count, one.module] for count in counts if (count, one.module) in known)
            pairs = (at_common_steps([one, count]) for count in own)
            empty = [size.steps[np.isnan(size.values) & (n.values == 0)] for size, n in pairs]
            found[tensor, one.module] = np.concatenate([one.steps[:0], *empty])
    return found


def is_of_none(one: Watched, empty: Mapping[tuple[str, str], Steps]) -> NDArray[np.bool_]:
    """A mask of the NaN of a series that tell of no elements, as where a graph has no edges.

    Of a module that returns none, all of its values and their gradients are so.

    Args:
        one: The series.
        empty: The steps at which tensors had none.
    """
    own = {tensor for tensor in _COUNTS if one.quantity.startswith(tensor)}
    if one.direction == "forward" or own:
        own.add("Output")
    steps = [empty[tensor, one.module] for tensor in own if (tensor, one.module) in empty]
    return np.isnan(one.values) & np.isin(one.steps, np.concatenate([one.steps[:0], *steps]))
