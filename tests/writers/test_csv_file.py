"""Records as CSV: a table that gives back what was written."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.writers import CSV, Batch
from tests.writers.given import RECORDS, run, same
from tests.writers.text_files import as_tensor, of_tensor, read_csv, same_tensor, written


@settings(max_examples=60)
@given(records=st.lists(RECORDS, max_size=4))
def test_csv_holds_what_was_recorded(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "run.csv"
    with written(path, Batch(3, records=records)):
        rows = read_csv(path)
    assert len(rows) == len(records)
    for row, record in zip(rows, records, strict=True):
        assert (row["module"], row["quantity"]) == (record.module, record.quantity)
        assert (int(row["step"]), row["epoch"], row["mode"]) == (record.step, "3", record.mode)
        if isinstance(record.value, torch.Tensor):
            found = json.loads(row["value"])
            assert same_tensor(as_tensor(found, *of_tensor(record.value)), record.value)
        else:
            assert same(type(record.value)(row["value"]), record.value)


@pytest.mark.parametrize("line", ['x,0,"train","","a",1', '0,0,"train"', '""', ""])
def test_a_row_that_is_no_record_is_told_with_its_file(line, tmp_path):
    path = tmp_path / "run.csv"
    text = f"step,epoch,mode,module,quantity,value\n{line}\n"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"run.csv: this is not a record: .*ove the file away"):
        CSV(path).open(run())
    assert path.read_text() == text


def test_a_damaged_table_is_told_and_left_alone(tmp_path):
    path = tmp_path / "run.csv"
    text = 'step,epoch,mode,module,quantity,value\n0,0,"tr"ain",a,b,1\n1,0,train,a,b,1\n'
    path.write_text(text)
    with pytest.raises(ValueError, match=r"run.csv, line 2: "):
        CSV(path).open(run())
    assert path.read_text() == text
