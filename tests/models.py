"""Models to fuzz with, and batches for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import nn

from taiyi_fx.testing import models
from taiyi_fx.testing.blocks import D


@dataclass
class Case:
    model: nn.Module
    twin: Callable[[], nn.Module]
    batches: list[torch.Tensor]

    def __repr__(self):
        return f"{self.model}\nbatches of {[len(b) for b in self.batches]}"


@st.composite
def cases(draw):
    """A model, and batches of different sizes for it."""
    recipe = draw(models())
    sizes = draw(st.lists(st.integers(2, 5), min_size=2, max_size=3, unique=True))
    batches = [torch.randn(n, 4, D) for n in sizes]
    return Case(recipe.make(), recipe.make, batches)
