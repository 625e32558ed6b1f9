"""Reading runs in SQLite."""

import pytest

import taiyi_fx


def test_an_empty_file_is_a_run_that_did_not_begin(tmp_path):
    (tmp_path / "run.sqlite").touch()
    with pytest.raises(ValueError, match="is empty: its run ended before it wrote"):
        taiyi_fx.open_run(tmp_path)
