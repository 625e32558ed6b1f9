"""The text of a verification, and its verdict."""

from __future__ import annotations

import pytest

import taiyi_fx
from tests.verification.given import (
    NORMS,
)


def test_a_verification_is_frozen(net, x):
    found = taiyi_fx.verify(net, NORMS, x, steps=1)
    with pytest.raises(AttributeError):
        found.steps = 3
    assert isinstance(found, taiyi_fx.Verification)
