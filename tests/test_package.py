"""The package as a whole: its public names, its documentation, its README and examples."""

import inspect
from pathlib import Path

import pytest

import taiyi_fx

ROOT = Path(__file__).parent.parent


def test_the_public_names_are_these():
    assert taiyi_fx.__all__ == [
        "ConfigError", "Diagram", "InstrumentedModule", "Monitor", "MonitorWarning", "Quantity",
        "Record", "Records", "at_steps", "buffer", "diagram", "every", "input", "input_grad",
        "instrument", "linear", "output", "output_grad", "previous", "quantity", "weight",
        "weight_grad",
    ]  # fmt: skip


@pytest.mark.parametrize("name", taiyi_fx.__all__)
def test_every_public_name_is_documented(name):
    found = getattr(taiyi_fx, name)
    if inspect.isclass(found) or inspect.isfunction(found):
        assert inspect.getdoc(found)
