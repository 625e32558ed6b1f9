"""The form of the opened faults that have a mended twin, and of what sets of faults share."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import benchmarks.faults
from benchmarks.faults import __main__ as runs
from benchmarks.faults.fault import FAULTS
from benchmarks.faults.twins import compare, outcome

FOLDER = Path(benchmarks.faults.__file__).parent

assert runs.FAULTS is FAULTS  # all sets are registered


@pytest.fixture(scope="module")
def faults():
    """The faults of the set."""
    return [fault for fault in FAULTS if ".opened.twinned." in fault.plant.__module__]


def test_rules_may_be_tuned_on_them_and_each_has_a_mended_twin(faults):
    assert len(faults) >= 15
    for fault in faults:
        assert fault.part == "tuning", fault.name
        assert "mended" in inspect.signature(fault.plant).parameters, fault.name


def test_a_mistake_hurts_and_its_twin_learns(faults):
    fault = next(fault for fault in faults if fault.name == "decoder_that_cannot_be_negative")
    faulty, _ = outcome(fault, mended=False)
    mended, figure = outcome(fault, mended=True)
    assert mended < faulty / 1.2
    assert figure != figure  # its author has none


def test_mistakes_that_are_certain_are_faults(faults):
    program = importlib.import_module("benchmarks.faults.opened.twinned.__main__")
    assert {fault.name for fault in faults} > program.CERTAIN


@pytest.mark.parametrize("certain", [(), ("averaged_twice",)])
def test_a_fault_that_hurts_nothing_has_to_be_certain(certain, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.faults.twins.outcome", lambda fault, *, mended: (1.0, 1.0))
    faults = [fault for fault in FAULTS if fault.name == "averaged_twice"]
    assert compare(faults, certain, ["*/mlp"]) == int(not certain)
    assert capsys.readouterr().out.splitlines()[0].startswith("built" if certain else "-----")


@pytest.mark.parametrize("folder", ["own", "opened", "reported", "planted", "sound"])
def test_what_may_be_read_does_not_lead_to_what_is_kept_away(folder):
    for path in sorted((FOLDER / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            named += [alias.name for alias in getattr(node, "names", []) if hasattr(alias, "name")]
            assert not any("kept_away" in name for name in named), path
