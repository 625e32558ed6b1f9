"""A finding as JSON."""

import dataclasses
import json
import math

from taiyi_fx import Finding
from taiyi_fx.findings.as_json import as_json


def test_all_fields_are_in_it_and_numbers_that_json_lacks_are_texts():
    inner = Finding(
        "non_finite", "alert", "fc", "OutputRMS", 3, math.nan, "finite", "it is", "look"
    )
    outer = dataclasses.replace(inner, value=-math.inf, consequences=(inner,))
    made = json.loads(json.dumps(as_json(outer), allow_nan=False))
    assert set(made) == {field.name for field in dataclasses.fields(Finding)}
    assert made["value"] == "-Infinity"
    assert made["consequences"][0]["value"] == "NaN"
