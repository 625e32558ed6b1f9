"""The command line as a program: its start, its help, its errors, what it prints where."""

import importlib.metadata
import os
import subprocess
import sys

import pytest

from taiyi_fx.cli import entry, main
from taiyi_fx.cli.parser import parser
from taiyi_fx.records.record import Event
from taiyi_fx.writers import Batch, Store
from tests.cli.conftest import recorded
from tests.writers.runs import numbers, opened, written

COMMANDS = "quantities targets check graph show plot compare export doctor".split()


@pytest.mark.parametrize("command", COMMANDS)
def test_each_commands_help_has_examples_that_parse(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    lines = capsys.readouterr().out.partition("examples:\n")[2].splitlines()
    examples = [line.split(" > ")[0].split()[1:] for line in lines if line.strip()]
    assert examples
    assert all(parser().parse_args(example).run for example in examples)
    assert {example[0] for example in examples} == {command}


def test_the_help_lists_all_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    assert all(f"\n    {command}" in told for command in COMMANDS)


def test_usage_errors_have_code_2(capsys):
    for wrong in ([], ["shw"], ["show"], ["compare", "a", "b", "--rtol", "-1"]):
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

for command in ((), *(({COMMANDS!r}[i],) for i in range({len(COMMANDS)}))):
    assert quiet(*command, "--help") == 0
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
    written(Store, tmp_path, [numbers(0, [1.0] * 5000)])
    program = subprocess.Popen(
        [sys.executable, "-m", "taiyi_fx", "show", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.readline()
    program.stdout.close()
    assert program.stderr.read() == b""
    program.stderr.close()
    assert program.wait() == 141


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


HOSTILE = ["\x1b[31mred", "two\nlines", "\u202edrow", "tab\t", "é🦜", "\ud800", "back\\slash"]


def hostile(folder):
    """A run whose names and events would change a terminal."""
    writer = opened(Store, folder)
    for step in range(2):
        batch = numbers(step, [0.0] * len(HOSTILE))
        block = batch.blocks[0]._replace(series=tuple((name, f"q{name}") for name in HOSTILE))
        writer.write(Batch(0, [block], events=[Event(step, "warning", *HOSTILE[:2])]))
    writer.close()
    return folder


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_control_character_of_a_name_reaches_the_terminal(tmp_path, encoding):
    run = str(hostile(tmp_path / "run"))
    other = str(written(Store, tmp_path / "other", [numbers(0, [1.0])]))
    for command in (["show", run, "--events"], ["plot", run], ["compare", run, other],
                    ["show", run, "--json"], ["compare", run, other, "--json"],
                    ["show", run, "--module", "\x1b[31m"], ["show", "\x1b[31m"]):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "taiyi_fx", *command],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )
        text = (done.stdout + done.stderr).decode(encoding)
        assert "Traceback" not in text
        assert all(c.isprintable() or c == "\n" for c in text)
        assert "\\x1b[31m" in text or "\\u001b[31m" in text
