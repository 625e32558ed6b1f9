"""The number of cases that a search tries: few in `make test` and `make ci`, all in `make test-all`."""

from typing import Any

import pytest


def tried(few: int, *, of: int) -> pytest.MarkDecorator:
    """Runs a test that takes ``examples`` with a few, or in `make test-all` with all of them."""
    return some_or_all("examples", few, of)


def some_or_all(name: str, few: Any, every: Any) -> pytest.MarkDecorator:
    """Runs a test with a value that tries few cases, or in `make test-all` with one that tries all.

    Args:
        name: The test's argument that says how many.
        few: Its value otherwise, by which nothing is tried that the other would not find.
        every: Its value in `make test-all`.
    """
    values = [
        pytest.param(few, marks=pytest.mark.sample),
        pytest.param(every, marks=pytest.mark.exhaustive),
    ]
    return pytest.mark.parametrize(name, values)
