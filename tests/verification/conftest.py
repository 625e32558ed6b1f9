"""A model to verify, and a batch for it."""

from __future__ import annotations

import pytest
import torch

from tests.verification.given import Net


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def x():
    return torch.randn(8, 4)
