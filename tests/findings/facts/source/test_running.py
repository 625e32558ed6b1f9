"""Code that runs, and what it names in other files."""

import importlib
import sys
import types

import pytest

from taiyi_fx.findings.facts.source import running
from taiyi_fx.findings.facts.source.reach import MODULE
from taiyi_fx.findings.facts.source.running import code_of_loop

LOSSES = """
import functools
import math


def kept(function):
    @functools.wraps(function)
    def wrapped(*args):
        return function(*args)

    return wrapped


@kept
def wrapped_loss(x):
    return inner_loss(x)


def inner_loss(x):
    return math.sqrt(x)


def unnamed(x):
    return x


class Data:
    def item(self):
        return 1
"""
LOOP = """
import losses
from losses import Data


def train(look):
    def step(x):
        return losses.wrapped_loss(x)

    data = Data()
    return look()


def other():
    return losses.unnamed(1)
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in (("losses", LOSSES), ("loop", LOOP)):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(code)
    yield tmp_path, importlib.import_module("loop")
    for name in ("losses", "loop"):
        sys.modules.pop(name, None)


def lines(code, *starts):
    """The lines that begin so, with their decorators."""
    return {i for i, line in enumerate(code.splitlines(), 1) if line.strip() in starts}


def test_functions_and_methods_that_code_names_are_of_it_in_other_files_too(files):
    home, loop = files
    found = loop.train(code_of_loop)
    assert found[str(home / "loop.py")] == lines(LOOP, "def train(look):")
    named = "@kept", "def inner_loss(x):", "def item(self):"
    assert found[str(home / "losses.py")] == lines(LOSSES, *named)
    assert not any("torch" in path or path.endswith("functools.py") for path in found)


def test_of_a_script_only_what_it_names_itself_runs(files, monkeypatch):
    home, _ = files
    script = home / "script.py"
    code = (
        "import losses\n"
        "def unused():\n    losses.unnamed(2)\n"
        "def used():\n    losses.inner_loss(2)\n"
        "used()\n"
        "found = look()\n"
    )
    script.write_text(code)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(script), raising=False)
    names = {"look": code_of_loop}
    exec(compile(code, str(script), "exec"), names)
    assert names["found"][str(script)] == {MODULE, 4}
    assert names["found"][str(home / "losses.py")] == lines(LOSSES, "def inner_loss(x):")


def test_the_files_are_bounded(files, monkeypatch):
    home, loop = files
    monkeypatch.setattr(running, "_FILES", 0)
    assert str(home / "losses.py") not in loop.train(code_of_loop)
