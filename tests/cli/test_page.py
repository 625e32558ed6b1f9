"""The page on the command line: its files, its commands, and what they print."""

import re
import sys
from pathlib import Path

import pytest

from taiyi_fx.cli import main
from taiyi_fx.cli.parser import parser

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "command-line.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def told(text):
    """Without what depends on versions and on the last digits of floats."""
    text = re.sub(r"\d+\.\d[\w.+-]*", "<float>", text)
    text = re.sub(r"\d+ of \d+", "<some>", text)
    text = re.sub(r"\(\w+ of '\w+' in the \w+ step\)", "(<a reading>)", text)
    text = re.sub(r"[▁-█]", "▁", text)
    return [" ".join(re.sub(r"-{3,}", "---", line).split()) for line in text.splitlines()]


@pytest.fixture
def forgotten():
    """What is imported as ``models`` is not found by later tests."""
    yield
    sys.modules.pop("models", None)


@pytest.mark.usefixtures("forgotten")
def test_the_commands_print_what_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    models, training = blocks("python")
    (tmp_path / "models.py").write_text(models)
    probes, mistaken = blocks("yaml")
    (tmp_path / "probes.yaml").write_text(probes)
    (tmp_path / "mistaken.yaml").write_text(mistaken)
    (tmp_path / "probes.toml").write_text(*blocks("toml"))
    exec(compile(training, PAGE.name, "exec"), {"__name__": "docs.command_line"})
    shown = re.findall(r"\$ taiyi-fx (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks("console")))
    assert len(shown) == 11
    for command, output in shown:
        main(command.split())
        captured = capsys.readouterr()
        assert told(captured.out + captured.err) == told(output), command
    main(["check", "models:net", "probes.toml"])
    assert told(capsys.readouterr().out) == told(dict(shown)["check models:net probes.yaml"])


def test_each_command_line_parses():
    lines = re.findall(
        r"taiyi-fx ((?:show|plot|report|watch|compare|diff|export|check|graph|targets|replay) [^`;\n]*)",
        TEXT,
    )
    assert len(lines) > 15
    for line in lines:
        assert parser().parse_args(line.split()).run


def test_each_option_exists(capsys):
    commands = re.findall(r"^\| `taiyi-fx (\w+)", TEXT, re.MULTILINE)
    assert len(commands) == 14
    for command in commands:
        with pytest.raises(SystemExit):
            main([command, "--help"])
    helps = capsys.readouterr().out
    for option in set(re.findall(r"--[a-z][a-z-]+", TEXT)):
        assert f"{option} " in helps or f"{option}\n" in helps, option
