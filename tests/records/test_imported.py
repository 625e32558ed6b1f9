"""Optional libraries of tables."""

import sys

import pytest

from taiyi_fx.records.imported import imported


def test_a_library_that_is_missing_is_said_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'taiyi-fx\[pandas\]'"):
        imported("pandas")


def test_a_library_that_is_there_is_given():
    assert imported("json").dumps(1) == "1"
