"""Reading runs in Parquet."""

import json

import pytest

import taiyi_fx
from taiyi_fx.writers import Parquet
from tests.writers.runs import numbers, written


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ({"version": 1}, "is damaged: it has no lives"),
        ({"version": 1, "lives": [], "series": 3}, "is damaged: it has no series"),
        ({"version": "x"}, "is no run of taiyi_fx"),
    ],
)
def test_a_damaged_head_is_told(head, text, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(head))
    with pytest.raises(ValueError, match=f"run.json' {text}"):
        taiyi_fx.open_run(tmp_path)


def test_sessions_stand_under_the_word_of_the_first_schema(tmp_path):
    written(Parquet, tmp_path, [numbers(0, [1.0])])
    head = json.loads((tmp_path / "run.json").read_text())
    assert head["version"] == 3
    assert [session["start_step"] for session in head["lives"]] == [0]
