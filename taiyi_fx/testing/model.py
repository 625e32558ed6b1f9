"""Whole models as strategies: chains of everything that breaks probes and traces."""

from __future__ import annotations

from typing import Literal

from hypothesis import strategies as st
from torch import nn

from taiyi_fx.testing.blocks import BLOCKS, Branch, Chain, D, WithoutGradient
from taiyi_fx.testing.module import ModuleRecipe

_PYTHON: tuple[type[nn.Module], ...] = (Branch, WithoutGradient)


@st.composite
def _chains(
    draw: st.DrawFn, blocks: tuple[type[nn.Module], ...], need: tuple[type[nn.Module], ...]
) -> ModuleRecipe:
    chosen = draw(st.lists(st.sampled_from(blocks), min_size=0 if need else 1, max_size=3))
    if need:
        chosen.insert(draw(st.integers(0, len(chosen))), draw(st.sampled_from(need)))
    output = draw(st.sampled_from(("tensor", "tuple", "dict")))
    return ModuleRecipe(
        Chain,
        tuple(block.__name__ for block in chosen),
        {} if output == "tensor" else {"output": output},
        shape=(4, D),
        seed=draw(st.integers(0, 999)),
    )


def models(forms: Literal["any", "graph", "python"] = "any") -> st.SearchStrategy[ModuleRecipe]:
    """Draws recipes of models, each with the shape of an input that fits.

    They are chains of up to four `taiyi_fx.testing.blocks`: residual, shared, in-place, branching,
    recurrent, with dropout, BatchNorm, attention, views, buffers that change, and outputs that
    are tensors, tuples or dictionaries.

    Args:
        forms: ``"graph"`` for models that become one graph, ``"python"`` for those with a forward
            that stays Python, ``"any"`` for both.

    Raises:
        ValueError: It is none of these.
    """
    if forms not in ("any", "graph", "python"):
        raise ValueError(f"forms is 'any', 'graph' or 'python', not {forms!r}")
    graphs = tuple(block for block in BLOCKS if block not in _PYTHON)
    blocks = graphs if forms == "graph" else BLOCKS
    return _chains(blocks, _PYTHON if forms == "python" else ())
