"""Tensors that break statistics: shapes, types, layouts, scales and values."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

SHAPES = st.one_of(
    st.tuples(st.integers(1, 12), st.integers(1, 8)),
    st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 8)),
    st.tuples(st.integers(1, 3), st.integers(1, 6), st.integers(1, 4), st.integers(1, 4)),
)
KINDS = st.sampled_from(["full", "deficient", "constant", "shifted", "sparse"])


@st.composite
def tensors(draw, shapes=SHAPES, kinds=KINDS, dtypes=(torch.float32, torch.float64)):
    shape = draw(shapes)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    kind = draw(kinds)
    if kind == "deficient":
        axis = 1 if len(shape) == 4 else -1
        x = x.sum(axis, keepdim=True) * torch.arange(1, shape[axis] + 1).double().reshape(
            [-1 if i == axis % len(shape) else 1 for i in range(len(shape))]
        )
    if kind == "constant":
        x = torch.full(shape, 0.1, dtype=torch.float64)
    if kind == "shifted":
        x = x + 100
    if kind == "sparse":
        x = x.relu()
    x = (x * 10.0 ** draw(st.integers(-3, 3))).to(draw(st.sampled_from(dtypes)))
    if draw(st.booleans()):
        x = x.transpose(0, -1).contiguous().transpose(0, -1)
    return x
