"""The table in the terminal: what it shows, where it stands still, and that it fights no bar."""

import io
import math

import pytest
from rich.console import Console
from tqdm import tqdm

from taiyi_fx.records.record import Block, Record
from taiyi_fx.writers import Batch, EpochEnd, Event, LiveTable
from taiyi_fx.writers.live import sparkline
from tests.writers.given import HOSTILE, numbers, run


def console(is_terminal, height=40):
    return Console(file=io.StringIO(), force_terminal=is_terminal, width=120, height=height)


def shown(writer_console):
    return writer_console.file.getvalue()


def follow(to, *batches, refresh=1e9):
    writer = LiveTable(console=to, refresh=refresh)
    writer.open(run())
    for batch in batches:
        writer.write(batch)
    return writer


def test_without_a_terminal_the_table_is_printed_once_at_the_end():
    to = console(False)
    writer = follow(to, *(numbers(s, epoch=2, InputMean=float(s)) for s in range(8)))
    assert shown(to) == ""
    writer.close()
    assert "tests.Model, epoch 2, step 7" in shown(to)
    (row,) = [line for line in shown(to).splitlines() if "InputMean" in line]
    assert row.split() == ["fc", "InputMean", "7", "▁▂▃▄▅▆▇█"]


def test_in_a_terminal_the_table_follows():
    to = console(True)
    writer = follow(to, numbers(0, InputMean=1.25), numbers(1, InputMean=2.5))
    assert shown(to).index("1.25") < shown(to).index("2.5")
    writer.close()
    assert shown(to).endswith("\x1b[?25h")  # the cursor is back


def test_it_is_drawn_a_few_times_a_second_at_most():
    to = console(True)
    writer = follow(to, *(numbers(s, InputMean=s + 0.5) for s in range(1000)), refresh=0.01)
    assert shown(to).count("InputMean") == 1
    writer.close()
    assert "999.5" in shown(to)


def test_series_with_nan_come_first_and_say_since_when():
    to = console(False)
    series = tuple((f"layer{i}", "InputMean") for i in range(3))
    values = [[1.0, 1.0, 1.0], [1.0, math.nan, 1.0], [1.0, 5.0, 1.0]]
    writer = follow(to, *(Batch(0, [Block(s, "train", series, v)]) for s, v in enumerate(values)))
    writer.close()
    first, *_ = [line for line in shown(to).splitlines() if "layer" in line]
    assert first.split() == ["layer1", "InputMean", "5", "▁x█", "nan", "at", "step", "1"]


def test_where_lines_are_few_the_rest_is_counted():
    to = console(True, height=12)
    series = tuple((f"layer{i}", "InputMean") for i in range(30))
    follow(to, Batch(0, [Block(0, "train", series, [1.0] * 30)])).close()
    assert "and 26 more series" in shown(to)


def test_evaluation_and_what_was_told_are_shown():
    to = console(False)
    told = Batch(0, events=[Event(3, "warning", "fc", "look [here]")])
    follow(to, numbers(3, mode="eval", InputMean=1.0), told).close()
    assert "InputMean (evaluation)" in shown(to)
    assert "look [here]" in shown(to)


def test_hostile_names_stay_in_their_line():
    to = console(False)
    records = [Record(0, f"{name}[red]", "InputMean", 1.0) for name in HOSTILE]
    follow(to, Batch(0, records=records)).close()
    rows = [line for line in shown(to).splitlines() if "InputMean" in line]
    assert len(rows) == len(HOSTILE)
    assert "two%0Alines[red]" in shown(to)


def test_beside_a_bar_it_is_printed_above_it_at_the_end_of_an_epoch():
    to = console(True)
    with tqdm(total=2, file=to.file) as bar:
        writer = follow(to, numbers(0, InputMean=1.25))
        assert "1.25" not in shown(to)
        writer.write(Batch(0, ended=EpochEnd(0, 0, [])))
        assert shown(to).count("1.25") == 1
        table = shown(to).rpartition("1.25")[0].rpartition("\r")[2]
        assert "it/s" not in table
        bar.update()
    writer.write(numbers(1, InputMean=2.5))
    writer.close()
    assert shown(to).count("2.5 ") == 1


def test_a_bar_that_comes_later_ends_the_following():
    to = console(True)
    writer = follow(to, numbers(0, InputMean=1.25))
    with tqdm(total=2, file=to.file):
        writer.write(numbers(1, InputMean=2.5))
        assert "2.5" not in shown(to)
        writer.close()
    assert "2.5" in shown(to)


def test_nothing_recorded_nothing_printed():
    to = console(False)
    follow(to).close()
    assert shown(to) == ""


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([1, 2, 3], "▁▅█"), ([5, 5], "▁▁"), ([1, 10, 100, 1000], "▁▃▆█"), ([math.nan], "x"),
        ([0, math.inf, 1], "▁x█"), ([-1.7e308, 0, 1.7e308], "▁▅█"),
    ],
)  # fmt: skip
def test_a_sparkline_goes_from_the_smallest_to_the_largest(values, line):
    assert sparkline([float(v) for v in values]) == line


def test_a_refresh_that_is_none_is_refused():
    with pytest.raises(ValueError, match="refresh is a number of times a second, not 0"):
        LiveTable(refresh=0)
