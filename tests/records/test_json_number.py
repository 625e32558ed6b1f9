"""Numbers for JSON."""

import json
import math

import pytest

from taiyi_fx.records.json_number import json_number


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -1.5, 5e-324, 7])
def test_any_number_comes_back_from_strict_json(value):
    text = json.dumps(json_number(value), allow_nan=False)
    found = float(json.loads(text))
    assert found == value or (math.isnan(found) and math.isnan(value))
