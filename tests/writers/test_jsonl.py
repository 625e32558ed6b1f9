"""Records, events and epochs as lines of JSON that give back what was written."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.records.epochs import EpochSummary
from taiyi_fx.records.record import Record
from taiyi_fx.writers import JSONL, Batch, EpochEnd, Event
from tests.writers.given import RECORDS, numbers, run, same
from tests.writers.text_files import as_tensor, of_tensor, read_jsonl, same_tensor, written


@settings(max_examples=60)
@given(records=st.lists(RECORDS, max_size=4))
def test_jsonl_holds_what_was_recorded(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("jsonl") / "run.jsonl"
    with written(path, Batch(3, records=records)):
        entries = read_jsonl(path)
    assert len(entries) == len(records)
    for entry, record in zip(entries, records, strict=True):
        assert (entry["module"], entry["quantity"]) == (record.module, record.quantity)
        assert (entry["step"], entry["epoch"], entry["mode"]) == (record.step, 3, record.mode)
        if isinstance(record.value, torch.Tensor):
            assert (entry["dtype"], tuple(entry["shape"])) == of_tensor(record.value)
            found = as_tensor(entry["value"], entry["dtype"], entry["shape"])
            assert same_tensor(found, record.value)
        else:
            assert same(type(record.value)(entry["value"]), record.value)


def test_jsonl_is_json_without_nan(tmp_path):
    values = [math.nan, math.inf, -math.inf, torch.tensor([[math.nan], [1.0]])]
    records = [Record(0, "fc", "InputMean", value) for value in values]
    with written(tmp_path / "a.jsonl", Batch(0, records=records)):
        lines = (tmp_path / "a.jsonl").read_text().splitlines()
    strict = {"parse_constant": lambda name: pytest.fail(f"{name} is no JSON")}
    found = [json.loads(line, **strict)["value"] for line in lines]
    assert found == ["NaN", "Infinity", "-Infinity", [["NaN"], [1.0]]]


@pytest.mark.parametrize("line", ['{"step": "x"}', '{"step": null}', "[]", ""])
def test_an_object_that_is_no_record_is_told_with_its_file(line, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"run.jsonl, line 1: this is not a record: "):
        JSONL(path).open(run())


def test_jsonl_has_events_and_epochs(tmp_path):
    path = tmp_path / "run.jsonl"
    summary = EpochSummary(4, "fc", "InputMean", "train", 2, 1.0, math.nan, 0.0, 2.0)
    batches = [
        numbers(7, epoch=4, InputMean=1.0),
        Batch(4, events=[Event(7, "non_finite", "fc", "the first NaN")]),
        Batch(4, ended=EpochEnd(4, 4, [summary])),
    ]
    with written(path, *batches, start_step=3):
        _, event, epoch = read_jsonl(path)
    assert event == {
        "step": 7, "epoch": 4, "event": "non_finite", "module": "fc", "text": "the first NaN"
    }  # fmt: skip
    told = epoch.pop("summary")
    assert epoch == {
        "step": 7, "epoch": 4, "mode": "train", "module": "fc", "quantity": "InputMean"
    }  # fmt: skip
    assert (told["count"], told["mean"], told["std"], told["median"]) == (2, 1.0, "NaN", None)
    with written(path, start_step=7) as left:
        assert left == b""
