"""The header: entries of series against their numbers, and the first view."""

import json
import math

import numpy as np
import pytest

from taiyi_fx.outline import Item, Outline
from taiyi_fx.pictures.report.downsample import sorted_numbers
from taiyi_fx.pictures.report.header import as_json, at_first, numbers_entries, tensors_entry
from taiyi_fx.pictures.report.readout import Described
from taiyi_fx.runs import SeriesName


def described(module, direction="forward"):
    return Described(SeriesName(module, "OutputRMS", "train"), direction, "")


def test_an_entry_sums_up_the_numbers_of_its_row():
    row, step = np.array([0, 1, 0, 0, 1]), np.array([3, 3, 4, 7, 9])
    value = np.array([1.0, 2.0, math.nan, -math.inf, 5.0])
    numbers = sorted_numbers(2, row, step, value)
    one, other = numbers_entries([described("a"), described("b", "parameter")], numbers, 6)
    assert (one["first"], one["last"], one["numbers"], one["nan"], one["inf"]) == (3, 7, 3, 1, 1)
    assert (one["chunk"], one["row"], one["state"]) == (6, 0, "alert")
    assert (other["row"], other["latest"], other["direction"]) == (1, 5.0, "parameters")
    assert json.loads(as_json([one, other])) == [one, other]


def test_an_entry_of_tensors_has_its_steps_and_no_numbers():
    entry = tensors_entry(described("a"), [5, 2, 9], 1)
    assert (entry["first"], entry["last"], entry["numbers"], entry["latest"]) == (2, 9, 0, None)


def test_json_without_a_standard_form_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json(math.nan)


def test_the_first_view_shows_the_first_fault_and_flagged_modules():
    items = [Item("module", "model"), Item("module", "seq", "S", "seq", parent=0)]
    items += [Item("module", f"b{i}", "B", f"seq.b{i}", parent=1) for i in range(40)]
    items += [Item("module", "fc", f"C{i}", f"seq.b{i}.fc", parent=i + 2) for i in range(40)]
    items += [Item("op", "add", parent=i + 2) for i in range(40)]
    outline = Outline(tuple(items), ())
    fault = {"kind": "non_finite", "module": "seq.b7.fc"}
    flagged = {"state": "alert", "module": "seq.b9.fc"}
    calm = {"state": "ok", "module": "seq.b30.fc"}
    found = {"severity": "warning", "module": "seq.b5.fc"}
    entry = {"findings": [found], "events": [fault], "series": [calm, flagged]}
    first = at_first(outline, entry)
    assert {7, 9, 11} <= set(first.is_open)
    assert 32 not in first.is_open
    assert at_first(None, {}).outline is None
