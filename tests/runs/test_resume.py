"""The step at which a run goes on."""

import pytest

from taiyi_fx.runs.resume import next_step
from taiyi_fx.writers import Store
from tests.writers.runs import numbers, written


def test_it_is_the_one_after_the_last(tmp_path):
    assert next_step(tmp_path / "none") == 0
    written(Store, tmp_path / "empty", [])
    assert next_step(tmp_path / "empty") == 0
    written(Store, tmp_path / "run", [numbers(3, [1.0]), numbers(8, [1.0])])
    assert next_step(tmp_path / "run") == 9


def test_a_damaged_run_is_an_error(tmp_path):
    written(Store, tmp_path, [numbers(0, [1.0])])
    (tmp_path / "run.sqlite").write_bytes(b"no such thing" * 400)
    with pytest.raises(ValueError, match="damaged"):
        next_step(tmp_path)
