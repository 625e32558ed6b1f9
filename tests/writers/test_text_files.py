"""CSV and JSONL: what is read back is what was written, also by a run that goes on."""

import csv
import json
import math
import os
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.records.epochs import EpochSummary
from taiyi_fx.records.record import Record
from taiyi_fx.writers import CSV, JSONL, Batch, EpochEnd, Event
from tests.writers.given import RECORDS, numbers, run, same

LINES = {"csv": CSV, "jsonl": JSONL}


@pytest.fixture(params=LINES)
def path(request, tmp_path):
    return tmp_path / "folder" / f"run.{request.param}"


def writer_of(path, **options):
    return LINES[path.suffix[1:]](path, **options)


@contextmanager
def written(path, *batches, start_step=0, **options):
    writer = writer_of(path, **options)
    writer.open(run(start_step))
    for batch in batches:
        writer.write(batch)
    writer.flush()
    yield path.read_bytes()
    writer.close()


def read_csv(path):
    with open(path, encoding="utf-8", errors="surrogatepass", newline="") as file:
        return list(csv.DictReader(file))


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def as_tensor(value, dtype, shape):
    dtype = getattr(torch, dtype)
    if dtype.is_complex:
        real = torch.from_numpy(np.array(value, dtype="float64")).reshape(*shape, 2)
        return torch.view_as_complex(real).to(dtype)
    plain = np.array(value, dtype="int64" if dtype in (torch.int64,) else "float64")
    return torch.from_numpy(plain).reshape(shape).to(dtype)


def same_tensor(found, value):
    if value.dtype.is_complex:
        found, value = torch.view_as_real(found), torch.view_as_real(value)
    both = found.to(torch.float64), value.to(torch.float64)
    return found.dtype == value.dtype and torch.allclose(*both, rtol=0, atol=0, equal_nan=True)


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


def of_tensor(value):
    return str(value.dtype).removeprefix("torch."), tuple(value.shape)


def test_jsonl_is_json_without_nan(tmp_path):
    values = [math.nan, math.inf, -math.inf, torch.tensor([[math.nan], [1.0]])]
    records = [Record(0, "fc", "InputMean", value) for value in values]
    with written(tmp_path / "a.jsonl", Batch(0, records=records)):
        lines = (tmp_path / "a.jsonl").read_text().splitlines()
    strict = {"parse_constant": lambda name: pytest.fail(f"{name} is no JSON")}
    found = [json.loads(line, **strict)["value"] for line in lines]
    assert found == ["NaN", "Infinity", "-Infinity", [["NaN"], [1.0]]]


def test_a_run_that_goes_on_drops_the_steps_that_it_makes_again(path):
    first = [numbers(step, InputMean=float(step)) for step in range(6)]
    with written(path, *first) as before:
        pass
    with written(path, numbers(3, InputMean=-3.0), start_step=3) as after:
        lines = before.splitlines(keepends=True)
        kept = b"".join(lines[: 4 if path.suffix == ".csv" else 3])
        assert after.startswith(kept)
        assert after.count(b"\n") == kept.count(b"\n") + 1
        assert b"-3.0" in after


def test_a_run_from_the_start_replaces_what_was_there_only_if_told_to(path):
    with written(path, numbers(0, InputMean=1.0), numbers(5, InputMean=1.0)) as before:
        pass
    with (
        pytest.raises(FileExistsError, match=r"holds records already.*\(path, overwrite=True\)"),
        written(path),
    ):
        pass
    assert path.read_bytes() == before
    with written(path, numbers(0, InputMean=2.0), overwrite=True) as found:
        assert b"1.0" not in found
        assert b"2.0" in found


@pytest.mark.parametrize("name", ["fc", "two\nlines", 'say "a"\r\n, b'])
def test_a_line_that_was_cut_off_is_dropped_wherever_it_was_cut(path, name):
    whole = Batch(0, records=[Record(0, name, "InputMean", 1.5)])
    last = Batch(0, records=[Record(1, name, "InputMean", 2.5)])
    with written(path, whole) as one:
        pass
    with written(path, whole, last, overwrite=True) as both:
        pass
    for cut in range(len(one), len(both)):
        path.write_bytes(both[:cut])
        with written(path, start_step=9) as found:
            assert found == one
    path.write_bytes(both)
    with written(path, start_step=9) as found:
        assert found == both


def test_a_file_of_something_else_is_left_alone(path):
    path.parent.mkdir()
    path.write_text("dear,diary\n")
    with pytest.raises(ValueError, match="dear,diary.*ove .* away, or give another path"):
        writer_of(path).open(run())
    assert path.read_text() == "dear,diary\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_of_the_users_beside_it_is_left_alone(path):
    with written(path, numbers(0, InputMean=1.0)):
        pass
    beside = path.with_name(f"{path.name}.part")
    beside.write_text("mine")
    with written(path, numbers(1, InputMean=1.0), start_step=1):
        assert beside.read_text() == "mine"


def test_a_link_stays_one(path, tmp_path):
    with written(path, numbers(0, InputMean=1.0)):
        pass
    link = tmp_path / f"link{path.suffix}"
    link.symlink_to(path)
    with written(link, numbers(1, InputMean=2.0), start_step=1):
        assert link.is_symlink()
        assert b"2.0" in path.read_bytes()


@pytest.mark.parametrize("line", ['x,0,"train","","a",1', '0,0,"train"', '""', ""])
def test_a_row_that_is_no_record_is_told_with_its_file(line, tmp_path):
    path = tmp_path / "run.csv"
    text = f"step,epoch,mode,module,quantity,value\n{line}\n"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"run.csv: this is no record: .*ove the file away"):
        CSV(path).open(run())
    assert path.read_text() == text


@pytest.mark.parametrize("line", ['{"step": "x"}', '{"step": null}', "[]", ""])
def test_an_object_that_is_no_record_is_told_with_its_file(line, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"run.jsonl, line 1: this is no record: "):
        JSONL(path).open(run())


FORKED = """
import os, sys
from pathlib import Path
from tests.writers.given import numbers, run
from tests.writers.test_text_files import writer_of

writer = writer_of(Path(sys.argv[1]))
writer.open(run())
if not os.fork():
    sys.exit(0)
os.wait()
writer.write(numbers(0, InputMean=1.0))
if not os.fork():
    sys.exit(0)
os.wait()
writer.close()
"""


def test_a_fork_writes_nothing(path):
    subprocess.run([sys.executable, "-c", FORKED, path], check=True)
    with written(path.with_stem("alone"), numbers(0, InputMean=1.0)) as alone:
        assert path.read_bytes() == alone


def test_a_file_that_is_deleted_is_told(path):
    writer = writer_of(path)
    writer.open(run())
    writer.write(numbers(0, InputMean=1.0))
    os.remove(path)
    with pytest.raises(FileNotFoundError, match=f"{path.name}' was deleted"):
        writer.flush()
    writer.close()


def test_a_damaged_table_is_told_and_left_alone(tmp_path):
    path = tmp_path / "run.csv"
    text = 'step,epoch,mode,module,quantity,value\n0,0,"tr"ain",a,b,1\n1,0,train,a,b,1\n'
    path.write_text(text)
    with pytest.raises(ValueError, match=r"run.csv, line 2: "):
        CSV(path).open(run())
    assert path.read_text() == text


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
