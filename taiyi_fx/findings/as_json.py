"""A finding as JSON, and the finding behind it."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any

from taiyi_fx.findings.finding import SEVERITIES, Finding
from taiyi_fx.records.json_number import json_number


def as_json(found: Finding) -> dict[str, Any]:
    """A finding as what JSON holds, which has no NaN and no Inf: see `json_number`."""
    return {
        **dataclasses.asdict(found),
        "value": json_number(found.value),
        "consequences": [as_json(one) for one in found.consequences],
        "functions": [*found.functions],
    }


def from_json(entry: Mapping[str, Any]) -> Finding:
    """The finding behind what `as_json` made of it.

    Raises:
        KeyError: A field is missing.
        TypeError: A field is of another type.
        ValueError: There is no such severity, or the value is not a number.
    """
    rest = [from_json(one) for one in entry["consequences"]]
    texts = {name: entry[name] for name in _TEXTS}
    functions = entry.get("functions", ())  # those of runs from before have none
    named = (*texts.items(), *(("a function", one) for one in functions))
    for name, text in named:
        if not isinstance(text, str):
            raise TypeError(f"{name} of a finding is {type(text).__name__}")
    if texts["severity"] not in SEVERITIES:
        raise ValueError(f"a finding has the severity {texts['severity']!r}")
    step, value = operator.index(entry["step"]), float(entry["value"])
    others = {"consequences": tuple(rest), "functions": tuple(functions)}
    return Finding(**texts, step=step, value=value, **others)


_TEXTS = ("kind", "severity", "module", "quantity", "expected", "text", "advice")
