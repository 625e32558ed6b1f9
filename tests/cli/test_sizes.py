"""Sizes of groups of runs, as the command line shows them; the rest is of `compare`."""

import pytest

from taiyi_fx.cli.sizes import _group_at
from tests.cli.given_runs import parted
from tests.writers.runs import FORMATS


def test_a_place_among_all_runs_is_of_a_group():
    groups = [["a", "b"], ["c"], ["d", "e"]]
    assert [_group_at(place, groups)[0] for place in (0, 2, 3)] == ["a", "c", "d"]
    with pytest.raises(IndexError):
        _group_at(5, groups)


def test_runs_of_different_lengths_are_compared_by_the_second_half_of_each(cli, tmp_path):
    short = parted(FORMATS[0], tmp_path / "short", [[9.0]] * 4 + [[2.0]] * 4)
    long = parted(FORMATS[0], tmp_path / "long", [[9.0]] * 40 + [[2.0]] * 40)
    assert cli("compare", short, long, "--by", "size")[1] == ("0 of 1 series differ in size\n")
