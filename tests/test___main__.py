"""``python -m taiyi_fx`` is the command line."""

import runpy
import sys

import pytest

import taiyi_fx


def test_it_runs_the_command_line_and_exits_with_its_code(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["taiyi_fx", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("taiyi_fx", run_name="__main__")
    assert ended.value.code == 0
    assert taiyi_fx.__version__ in capsys.readouterr().out


def test_imported_it_runs_nothing():
    assert runpy.run_module("taiyi_fx.__main__", run_name="imported")["main"].__name__ == "main"
