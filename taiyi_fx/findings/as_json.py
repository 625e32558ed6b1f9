"""A finding as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from taiyi_fx.findings.finding import Finding
from taiyi_fx.records.json_number import json_number


def as_json(found: Finding) -> dict[str, Any]:
    """A finding as what JSON holds, which has no NaN and no Inf: see `json_number`."""
    return {
        **dataclasses.asdict(found),
        "value": json_number(found.value),
        "consequences": [as_json(one) for one in found.consequences],
    }
