"""What was read last at each mark."""

import math

import pytest
import torch

import taiyi_fx
from taiyi_fx.findings import Finding
from taiyi_fx.outline import Item, Mark, Marks, Outline
from taiyi_fx.pictures.diagram.latest import Latest, flagged, latest_values, number
from taiyi_fx.records.record import Record

HEALTH = {q.name: q.health for q in taiyi_fx.quantities()}


def outline(*quantities, module="fc"):
    marks = Marks(forward=tuple(Mark(quantity, "") for quantity in quantities))
    return Outline((Item("module", "model"), Item("module", module, module=module, marks=marks, parent=0)), ())  # fmt: skip


def read(values, quantity="OutputRMS", mode="train"):
    records = [Record(step, "fc", quantity, value, mode) for step, value in enumerate(values)]
    name = quantity.split(".")[0]
    return latest_values(outline(name), records, HEALTH)[("fc", name)]


def test_the_latest_number_is_shown_with_three_digits():
    assert read([0.5, 0.98]) == Latest("0.980")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (7, "7"),
        (1_234_567, "1.23e6"),
        (1_234, "1234"),
        (0.98, "0.980"),
        (61.234, "61.2"),
        (12345.6, "12346"),
        (2.1e-4, "2.10e-4"),
        (-3.5e12, "-3.50e12"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


def test_a_series_that_needs_a_look_says_so():
    assert read([1.0, math.nan]) == Latest("nan", "alert")
    assert read([1.0, math.inf, 1.0]).state == "warn"
    assert read([1.0] * 6 + [20.0]) == Latest("20.0", "warn", "up")
    assert read([1.0] * 6 + [0.05]) == Latest("0.0500", "warn", "down")
    assert read([0.61], "DeadNeuronRatio").state == "alert"


def test_of_several_numbers_the_first_is_shown_and_all_are_told():
    mark = outline("OutputQuantiles")
    names = ("OutputQuantiles.q50", "OutputQuantiles.q99")
    records = [Record(0, "fc", name, value) for name, value in zip(names, (1.0, math.nan), strict=True)]  # fmt: skip
    (found,) = latest_values(mark, records, {}).values()
    assert found == Latest("1.00", "alert", details=("q50 1.00", "q99 nan"))


def test_a_mark_that_begins_alike_is_another_one():
    assert latest_values(outline("Output"), [Record(0, "fc", "OutputRMS", 1.0)], {}) == {}
    assert latest_values(outline("OutputRMS"), [Record(0, "other", "OutputRMS", 1.0)], {}) == {}


def test_a_tensor_is_told_by_its_shape():
    assert read([torch.ones(3, 2)]) == Latest("3 × 2")


def test_training_comes_before_evaluation():
    mark = outline("Q")
    both = [Record(0, "fc", "Q", 1.0), Record(1, "fc", "Q", 2.0, "eval")]
    assert latest_values(mark, both, {})["fc", "Q"].text == "1.00"
    assert latest_values(mark, both[1:], {})["fc", "Q"].text == "2.00"


def test_many_records_are_walked_through_once():
    class Once(list):
        walks = 0

        def __iter__(self):
            self.walks += 1
            return super().__iter__()

    items = [Item("module", "model")]
    items += [Item("module", f"m{i}", module=f"m{i}", parent=0, marks=Marks(forward=(Mark("Q", ""),))) for i in range(1200)]  # fmt: skip
    records = Once(Record(step, f"m{i}", "Q", 1.0) for step in range(100) for i in range(1200))
    assert len(latest_values(Outline(tuple(items), ()), records, {})) == 1200
    assert records.walks == 1


def test_what_a_finding_names_is_as_grave_as_it():
    told = [("a", "UpdateRatio.weight", "warning"), ("b", "OutputRMS", "note")]
    every = [Finding("k", s, module, q, 0, 1.0, "", "seen", "do") for module, q, s in told]
    cause = Finding("k", "alert", "c", "OutputRMS", 0, 1.0, "", "seen", "do", (every[0],))
    known = {("a", "UpdateRatio"): Latest("1"), ("b", "OutputRMS"): Latest("1")}
    made = flagged(known, [cause, every[1]])
    assert [one.state for one in made.values()] == ["warn", "ok"]
    alert = {("a", "UpdateRatio"): Latest("1", "alert")}
    assert flagged(alert, [every[0]])[("a", "UpdateRatio")].state == "alert"


def test_a_ratio_that_nothing_defines_is_no_number():
    records = [Record(0, "fc", "WeightGradAgreement", math.nan)]
    units = {"WeightGradAgreement": "cosine"}
    (found,) = latest_values(outline("WeightGradAgreement"), records, {}, units).values()
    assert found == Latest("-")
