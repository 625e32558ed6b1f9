"""The number of examples that a search tries: some in `make test`, all in `make test-all`."""

import pytest


def tried(few: int, *, of: int) -> pytest.MarkDecorator:
    """Runs a test that takes ``examples`` with a few, and where slow tests run with all of them."""
    return pytest.mark.parametrize("examples", [few, pytest.param(of, marks=pytest.mark.slow)])
