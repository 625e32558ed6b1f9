"""The head of a run in Parquet."""

import json
from dataclasses import replace

import pytest

from taiyi_fx.runs.head import Cut, Head, Renumbering, as_json, part_of, read_head, temporary

HEAD = Head(
    sessions=[{"start_step": 0}],
    series=[[1, "a", 0, "q", "train", "forward", ""]],
    epochs=[[0, 0, 5, 1]],
    parts={"points": [0, 1], "tensors": [1], "events": []},
    next=2,
    cut=Cut(2, 4),
    renumbering=Renumbering(0, 2, 0, 7),
    writer="token",
)


def test_a_head_comes_back(tmp_path):
    (tmp_path / "run.json").write_text(as_json(HEAD))
    assert read_head(tmp_path) == HEAD
    assert not HEAD.is_settled
    assert Head().is_settled


def test_a_head_continues_one_whose_parts_stand_as_they_stood():
    more = {**HEAD.parts, "points": [0, 1, 2]}
    assert replace(HEAD, parts=more, next=3).continues(HEAD)
    for change in ({"writer": "other"}, {"cut": Cut(2, 3)}, {"epochs": []}):
        assert not replace(HEAD, **change).continues(HEAD)


@pytest.mark.parametrize(
    "wrong",
    [
        {"parts": {"points": [-1], "tensors": [], "events": []}},
        {"parts": {"points": ["../x"], "tensors": [], "events": []}},
        {"parts": {"points": [True], "tensors": [], "events": []}},
        {"parts": {"points": []}},
        {"parts": 3},
        {"next": -1},
        {"next": None},
        {"cut": [1]},
        {"cut": ["a", "b"]},
        {"renumbering": [0, 1]},
    ],
)
def test_a_wrong_list_of_parts_is_told(wrong, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({**json.loads(as_json(HEAD)), **wrong}))
    with pytest.raises(ValueError, match=r"run.json' is damaged"):
        read_head(tmp_path)


def test_a_temporary_name_is_none_that_patterns_for_parts_match(tmp_path):
    part = part_of(tmp_path, "points", 3)
    temporary(part).touch()
    assert not list(tmp_path.glob("*.parquet"))
    part.touch()
    assert list(tmp_path.glob("points-*.parquet")) == [part]
