"""Test ids are the same in each process, as pytest-xdist needs them to be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def collecting(seed):
    """A process that lists all test ids, with its own order of sets and its own addresses."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
    variables = {**os.environ, "PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, "tests"],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ids_of(process):
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output[-2000:]
    return [line for line in output.splitlines() if "::" in line]


@pytest.mark.slow
def test_two_processes_collect_the_same_ids_in_the_same_order():
    first, second = [ids_of(process) for process in [collecting(1), collecting(2)]]
    assert len(first) > 1000
    differing = [(a, b) for a, b in zip(first, second, strict=False) if a != b]
    assert differing[:10] == []
    assert len(first) == len(second)
