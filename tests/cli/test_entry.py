"""The entry: exit codes, and what is imported."""

import importlib.metadata
import os
import subprocess
import sys

import pytest

from taiyi_fx.cli import entry, main
from taiyi_fx.cli.parser import parser
from taiyi_fx.writers import Store
from tests.cli.conftest import recorded
from tests.cli.subcommands import COMMANDS
from tests.writers.runs import numbers, written


def test_usage_errors_have_code_2(capsys):
    for wrong in (["shw"], ["show"], ["compare", "a", "b", "--rtol", "-1"]):
        with pytest.raises(SystemExit) as end:
            main(wrong)
        assert end.value.code == 2
    assert "'-1' is not a number of at least 0" in capsys.readouterr().err


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"taiyi-fx {importlib.metadata.version('taiyi-fx')}\n"


def test_reading_runs_takes_no_torch_and_help_not_even_numpy(tmp_path):
    run = recorded(tmp_path / "run")
    code = f"""
import io, sys, contextlib
from taiyi_fx.cli import main

def quiet(*arguments):
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return main(arguments)
        except SystemExit as end:
            return end.code

for command in {COMMANDS!r}:
    assert quiet(command, "--help") == 0
assert quiet("--help") == 0
assert "numpy" not in sys.modules
run = {str(run)!r}
assert quiet("show", run, "--events") == quiet("plot", run) == quiet("compare", run, run) == 0
assert quiet("export", run, "-o", run + ".csv") == quiet("export", run, "-o", run + ".parquet") == 0
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_installed_program_and_the_package_run_the_same(tmp_path):
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="taiyi-fx")
    assert script.load() is main
    done = subprocess.run(
        [sys.executable, "-m", "taiyi_fx", "show", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("taiyi-fx: error: no run in ")
    assert done.stdout == ""


@pytest.mark.skipif(os.name == "nt", reason="pipes are closed otherwise there")
def test_a_reader_that_goes_away_is_no_error(tmp_path):
    written(Store, tmp_path, [numbers(0, [1.0])])
    reader, output = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "taiyi_fx", "show", str(tmp_path)],
        stdout=output,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(output)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_interrupt_ends_it_quietly(monkeypatch, cli):
    def interrupted(_):
        raise KeyboardInterrupt

    made = parser()
    monkeypatch.setattr(made, "parse_args", interrupted)
    monkeypatch.setattr(entry, "parser", lambda: made)
    assert cli("show", "x") == (130, "", "")


def test_a_defect_does_not_look_like_a_difference(monkeypatch, cli):
    monkeypatch.setattr(entry, "parser", lambda: 1 / 0)
    code, out, err = cli("compare", "a", "b")
    assert (code, out) == (70, "")
    assert err.startswith("Traceback")
    assert err.endswith("ZeroDivisionError: division by zero\n\n")
