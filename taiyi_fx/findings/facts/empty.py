"""Parameters without elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from taiyi_fx.findings.facts.watched import Watched


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
