"""Records in memory: a table that is bounded, and one that can be searched."""

import itertools
import tracemalloc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx.records.record import Block, Record, Records

SERIES = tuple(itertools.product(("fc", "fc@1", "act"), ("OutputNorm", "Sparsity")))


@st.composite
def items(draw):
    step, mode = draw(st.integers(0, 3)), draw(st.sampled_from(["train", "eval"]))
    if draw(st.booleans()):
        names = tuple(draw(st.lists(st.sampled_from(SERIES), unique=True, max_size=6)))
        numbers = st.one_of(st.integers(), st.floats(allow_nan=False))
        size = len(names)
        return Block(step, mode, names, draw(st.lists(numbers, min_size=size, max_size=size)))
    value = draw(st.one_of(st.integers(), st.builds(torch.ones, st.integers(1, 5))))
    return Record(step, *draw(st.sampled_from(SERIES)), value, mode)


def tabled(made):
    table = Records()
    for item in made:
        if isinstance(item, Block):
            table.append_block(item)
        else:
            table.append(item)
    return table


def in_a_list(made):
    """The records of a table, one by one."""
    found = []
    for item in made:
        if isinstance(item, Block):
            pairs = zip(item.series, item.values, strict=True)
            found += [Record(item.step, *names, value, item.mode) for names, value in pairs]
        else:
            found.append(item)
    return found


def keys(records):
    return [(r.step, r.module, r.quantity, str(r.value), r.mode) for r in records]


@given(st.lists(items(), max_size=8), st.data())
def test_a_table_is_the_list_of_its_records(made, data):
    table, expected = tabled(made), in_a_list(made)
    assert len(table) == len(expected)
    assert keys(table) == keys(expected)
    size = len(expected)
    bound = st.none() | st.integers(-size - 1, size + 1)
    step = st.none() | st.integers(1, 3) | st.integers(-3, -1)
    part = slice(data.draw(bound), data.draw(bound), data.draw(step))
    assert keys(table[part]) == keys(expected[part])
    for i in range(-size, size):
        assert keys([table[i]]) == keys([expected[i]])
    for i in (size, -size - 1):
        with pytest.raises(IndexError):
            table[i]
    module = data.draw(st.sampled_from([None, "fc", "act", "gone"]))
    quantity = data.draw(st.sampled_from([None, "OutputNorm"]))
    mode = data.draw(st.sampled_from([None, "eval"]))
    assert keys(table.select(module, quantity, mode)) == keys(
        r
        for r in expected
        if module in (None, r.module) and quantity in (None, r.quantity) and mode in (None, r.mode)
    )
    columns = table.to_columns()
    assert [str(x) for x in columns["value"]] == [str(r.value) for r in expected]


@given(st.lists(items(), max_size=8), st.integers(1, 30))
def test_what_is_kept_is_the_longest_end_that_fits(made, most):
    table, expected = tabled(made), in_a_list(made)
    sizes = [r.value.numel() if isinstance(r.value, torch.Tensor) else 1 for r in expected]
    first = 0
    if sum(sizes) > most:
        while sum(sizes[first:]) > most * 9 // 10:
            first += 1
    table.keep(most)
    assert keys(table) == keys(expected[first:])
    assert table.dropped == first


def test_a_number_takes_less_than_a_hundred_bytes_also_once_all_were_looked_at():
    series = tuple((f"layers.{i}", "OutputNorm") for i in range(100))
    tracemalloc.start()
    try:
        records = Records()
        before = tracemalloc.get_traced_memory()[0]
        for step in range(100):
            records.append_block(Block(step, "train", series, [step + i / 7 for i in range(100)]))
        assert sum(1 for _ in records) == len(records) == 10_000
        assert records[-1].value == 99 + 99 / 7
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used / len(records) < 50


def test_the_oldest_records_go_first_and_tensors_count_by_their_elements():
    records = Records([Record(step, "fc", "t", torch.zeros(10)) for step in range(10)])
    records.keep(100)
    assert len(records) == 10
    records.append(Record(10, "fc", "n", 1.0))
    records.keep(100)
    assert [r.step for r in records] == [2, 3, 4, 5, 6, 7, 8, 9, 10]  # 81 numbers, of 90 at most
    records.keep(100)
    assert records.dropped == 2


def test_a_table_of_pandas_has_a_row_for_each_record():
    pytest.importorskip("pandas")
    records = Records([Record(0, "a", "q", 1.5), Record(1, "a", "t", torch.ones(2), "eval")])
    table = records.to_pandas()
    assert list(table.columns) == ["step", "module", "quantity", "value", "mode"]
    assert table["step"].tolist() == [0, 1]
    assert table["value"][0] == 1.5
    assert table["value"][1].tolist() == [1.0, 1.0]
    assert Records().to_pandas().empty
