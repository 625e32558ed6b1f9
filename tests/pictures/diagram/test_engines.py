"""Where Graphviz is found, and what is said when it fails."""

import subprocess
import sys

import pytest

from taiyi_fx.pictures.diagram.engines import find_engine, render


def test_an_engine_that_fails_shows_what_it_said():
    with pytest.raises(RuntimeError, match="syntax error"):
        render(find_engine(), "digraph {", "svg")


def test_the_engine_is_found_without_an_activated_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    code = "from taiyi_fx.pictures.diagram.engines import find_engine; print(find_engine())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "graphviz-pure" in found.stdout


def test_the_systems_own_comes_first(tmp_path, monkeypatch):
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_engine() == str(program)
