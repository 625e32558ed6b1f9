"""The form of the faults that are kept away from those who make rules."""

import importlib
import inspect
import re
from types import SimpleNamespace

import pytest

from benchmarks.faults import __main__ as runs
from benchmarks.faults.fault import FAULTS, HEALTHY
from benchmarks.faults.score import names_culprit
from benchmarks.faults.tasks import TASKS
from benchmarks.faults.twins import outcome

THREAD = re.compile(r"[\w.-]+/[\w.-]+#\d+|[\w-]+(?:\.[\w-]+)+/\S+")
"""A thread on GitHub, such as owner/name#6, or the address of a page."""

assert runs.FAULTS is FAULTS  # all sets are registered


@pytest.fixture(scope="module")
def faults():
    """The faults of the set."""
    return [fault for fault in FAULTS if ".kept_away." in fault.plant.__module__]


def test_there_are_enough_and_of_all_tasks(faults):
    assert len({fault.name for fault in faults}) >= 100
    assert len(faults) >= 120
    assert {fault.task for fault in faults} == set(TASKS)


def test_names_are_no_other_fault_s(faults):
    labels = [fault.label for fault in faults]
    assert len(set(labels)) == len(labels)
    others = {case.name for case in [*FAULTS, *HEALTHY] if case not in faults}
    assert others.isdisjoint(fault.name for fault in faults)


def test_all_are_held_out(faults):
    assert {fault.part for fault in faults} == {"held_out"}


def test_each_tells_what_went_wrong_and_in_which_thread(faults):
    threads = set()
    for fault in faults:
        first, _, rest = (inspect.getdoc(fault.plant) or "").partition("\n\n")
        assert first.endswith((".", "?")), fault.name
        assert THREAD.findall(rest), fault.name
        threads.update(THREAD.findall(rest))
    assert len(threads) >= 120


def test_each_has_a_mended_twin(faults):
    for fault in faults:
        assert "mended" in inspect.signature(fault.plant).parameters, fault.name


def test_culprits_are_modules_of_what_is_trained(faults):
    for fault in faults:
        training = fault.training()
        names = [name for name, _ in training.model.named_modules()]
        patterns = [culprit.format_map(training.names) for culprit in fault.culprits]
        found = [SimpleNamespace(module=name, kind="") for name in names]
        assert any(names_culprit(f, patterns, None) for f in found), fault
        assert re.compile(fault.kinds)


def test_a_mistake_hurts_and_its_twin_learns(faults):
    fault = next(fault for fault in faults if fault.name == "prediction_made_a_new_tensor")
    faulty, _ = outcome(fault, mended=False)
    mended, figure = outcome(fault, mended=True)
    assert mended < 0.2 < 1 < faulty
    assert figure != figure  # its author has none


def test_mistakes_that_are_certain_are_faults(faults):
    program = importlib.import_module("benchmarks.faults.kept_away.__main__")
    assert {fault.name for fault in faults} > program.CERTAIN
