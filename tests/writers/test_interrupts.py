"""Interrupts at any instruction: nothing that was written is lost, and nothing is there twice."""

import csv
import gc
import json
import os

import pytest
import torch

import taiyi_fx
from taiyi_fx.records.epochs import Epochs
from taiyi_fx.records.record import Block, Event, Record, Records
from taiyi_fx.writers import CSV, JSONL, Batch, EpochEnd, Parquet, Store
from taiyi_fx.writers.writer_group import WriterGroup
from tests.examples import some_or_all
from tests.writers.interrupts import chosen, instructions_of, interrupted_at
from tests.writers.runs import info, numbers

FEW = 5
"""The instructions at which the quick tests interrupt, evenly chosen."""

STRIDE = {} if os.environ.get("TAIYI_INTERRUPTS") else {Parquet: 40, Store: 10}
"""Every which instruction the slow tests interrupt: each takes 40 ms where many files are written."""

ALL = [0, 1, 2, 3]

FILES = {Store: "run", Parquet: "parts", CSV: "run.csv", JSONL: "run.jsonl"}
KINDS = [Store, Parquet, CSV, JSONL]


def batch_of(step):
    tensor = Record(step, "a", "t", torch.full((2,), float(step)))
    event = Event(step, "warning", "a", "told")
    names = 3 + step  # each batch has series of its own
    return numbers(step, [float(step)] * names, records=[tensor], events=[event])


ENDED = Batch(0, ended=EpochEnd(0, 5, ()))


def begun(kind, folder):
    group = WriterGroup(strict=True)
    group.add([kind(folder / FILES[kind])])
    group.open(info())
    for step in range(2):
        group.write(batch_of(step))
    group.flush(at_once=True)
    for batch in (batch_of(2), ENDED):
        group.write(batch)
    return group


def ended(group):
    group.write(batch_of(3))
    group.close()


def finds_all_once(kind, folder, steps):
    place = folder / FILES[kind]
    if kind in (Store, Parquet):
        with taiyi_fx.open_run(place) as run:
            table = run.to_numpy()
            found = table["step"].tolist()
            assert len({*zip(found, table["module"], strict=True)}) == len(found)
            assert sorted(run.tensors("a", "t")) == steps
            assert [event.step for event in run.events] == steps
            assert run.epochs == [(5, 0, 2)]
            assert table["epoch"].tolist() == [5 if step < 3 else 0 for step in found]
    elif kind is CSV:
        rows = list(csv.DictReader(place.read_text().splitlines()))
        found = [int(row["step"]) for row in rows if row["quantity"] == "q"]
        assert sum(row["quantity"] == "t" for row in rows) == len(steps)
    else:
        rows = [json.loads(line) for line in place.read_text().splitlines()]
        found = [row["step"] for row in rows if row.get("quantity") == "q"]
        assert [row["step"] for row in rows if "event" in row] == steps
    assert sorted(found) == [step for step in steps for _ in range(3 + step)]


def test_every_action_is_interrupted_somewhere_else(tmp_path):
    group = begun(Store, tmp_path)
    assert len({*instructions_of(group.close)}) > 500


ACTIONS = {
    "write": lambda group: group.write(batch_of(3)),
    "flush": lambda group: group.flush(at_once=True),
    "close": lambda group: group.close(),
}


# Between a file's opening and `with` nothing but the collector can close it, which Python tells.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@some_or_all("few", FEW, None)
@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_loses_and_doubles_nothing(kind, name, few, tmp_path):
    action = ACTIONS[name]
    counted = begun(kind, tmp_path / "counted")
    instructions = instructions_of(lambda: action(counted))
    counted.close()
    stride = STRIDE.get(kind, 1)
    for number, place in enumerate(chosen(instructions[::stride], few)):
        folder = tmp_path / str(number)
        group = begun(kind, folder)
        interrupted_at(lambda group=group: action(group), place)
        if name == "write":
            is_taken = group._delivery.batch is not ENDED
            group.close()
            finds_all_once(kind, folder, ALL if is_taken else ALL[:-1])
        elif name == "flush":
            ended(group)
            finds_all_once(kind, folder, ALL)
        else:
            group.close()
            finds_all_once(kind, folder, [0, 1, 2])
            group.close()
    gc.collect()  # while that warning is left out


def test_an_interrupt_while_records_are_looked_at_doubles_and_loses_none():
    def filled():
        records = Records()
        for step in range(3):
            records.append_block(Block(step, "train", (("a", "q"), ("b", "q")), [1.0, 2.0]))
        records.append(Record(3, "a", "t", torch.ones(2)))
        return records

    for place in instructions_of(lambda: len(filled())):
        records = filled()
        interrupted_at(lambda records=records: len(records), place)
        assert [r.step for r in records] == [0, 0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("statistics", ["exact", "streaming"])
def test_an_interrupt_while_an_epoch_is_closed_counts_each_number_once(statistics):
    def filled():
        epochs = Epochs(statistics)
        for step in range(3):
            epochs.add_block(Block(step, "train", (("a", "q"),), [float(step)]))
        return epochs

    for place in instructions_of(lambda: filled().close(None)):
        epochs = filled()
        interrupted_at(lambda epochs=epochs: epochs.close(None), place)
        counts = [summary.count for summary in epochs.close(None)]
        assert counts in ([3], [])  # none where it was closed already
