"""Runs for the command line."""

import re

import pytest

from tests.writers.runs import FORMATS, numbers, written

both = pytest.mark.parametrize("kind", FORMATS)


NAN, INF = float("nan"), float("inf")


VALUES = [3.0, NAN, -INF, 1.0, 2.0]


def cells(text):
    return [re.split("  +", line) for line in text.splitlines()]


def parted(kind, folder, values, **rest):
    return written(kind, folder, [numbers(step, row, **rest) for step, row in enumerate(values)])
