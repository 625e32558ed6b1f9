"""A finding as JSON, and back."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx import Finding
from taiyi_fx.findings.as_json import as_json, from_json
from tests.watch.given import finding


def test_all_fields_are_in_it_and_numbers_that_json_lacks_are_texts():
    inner = Finding(
        "non_finite", "alert", "fc", "OutputRMS", 3, math.nan, "finite", "it is", "look"
    )
    outer = dataclasses.replace(inner, value=-math.inf, consequences=(inner,))
    made = json.loads(json.dumps(as_json(outer), allow_nan=False))
    assert set(made) == {field.name for field in dataclasses.fields(Finding)}
    assert made["value"] == "-Infinity"
    assert made["consequences"][0]["value"] == "NaN"


TEXT = st.text(max_size=8)
ANY = st.builds(
    Finding,
    TEXT,
    st.sampled_from(["alert", "warning", "note"]),
    TEXT,
    TEXT,
    st.integers(0, 2**40),
    st.floats(allow_nan=False),
    TEXT,
    TEXT,
    TEXT,
    functions=st.lists(TEXT, max_size=2).map(tuple),
)


@given(ANY, st.lists(ANY, max_size=3))
def test_it_comes_back(one, rest):
    whole = dataclasses.replace(one, consequences=tuple(rest))
    assert from_json(json.loads(json.dumps(as_json(whole), allow_nan=False))) == whole


def test_one_of_a_run_from_before_names_no_functions():
    entry = as_json(finding())
    del entry["functions"]
    assert from_json(entry).functions == ()


def test_a_value_that_is_no_number_comes_back():
    one = dataclasses.replace(finding(), value=math.nan)
    assert math.isnan(from_json(as_json(one)).value)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("severity", "grave", ValueError),
        ("kind", 3, TypeError),
        ("step", "three", TypeError),
        ("value", "much", ValueError),
        ("consequences", [{}], KeyError),
        ("functions", [3], TypeError),
        ("consequences", 3, TypeError),
    ],
)
def test_what_is_no_finding_is_named(field, value, error):
    with pytest.raises(error):
        from_json({**as_json(finding()), field: value})
