"""Tensors that break statistics, as recipes whose repr is code that makes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
KINDS = (
    "full", "deficient", "constant", "shifted", "sparse", "heavy", "zero", "nan", "inf",
)  # fmt: skip
LAYOUTS = ("contiguous", "transposed", "strided", "expanded", "channels_last")
SCALES = (1.0, 1e3, 1e-3, 1e-10, 1e10, 1e-30, 1e30)
SHAPES = st.one_of(
    st.tuples(st.integers(1, 12), st.integers(1, 8)),
    st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6)),
    st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3)),
)
"""Of 2, 3 and 4 axes, small enough that a failing example can be read."""


_LITERAL = 12
"""Tensors of up to so many elements are shown as their numbers."""


@dataclass(frozen=True)
class TensorRecipe:
    """A way to make a tensor; its repr is code that makes it.

    That is its numbers if they are few, else the call of `make_tensor`.

    Attributes:
        shape: The tensor's shape.
        kind: The kind of its values; see `make_tensor`.
        seed: Which of such tensors.
        scale: The factor of all values.
        dtype: Its type.
        layout: How it lies in memory; see `make_tensor`.
        below: For ``kind="indices"``, what the whole numbers stay below.
        device: Where it is.
    """

    shape: tuple[int, ...]
    kind: str = "full"
    seed: int = 0
    scale: float = 1.0
    dtype: torch.dtype = torch.float32
    layout: str = "contiguous"
    below: int = 2
    device: str = "cpu"

    def make(self) -> Tensor:
        """A new and equal tensor at each call, without a gradient."""
        return make_tensor(**{f.name: getattr(self, f.name) for f in fields(self)})

    def __repr__(self) -> str:
        if math.prod(self.shape) <= _LITERAL and self.layout == "contiguous":
            return _literal(replace(self, device="cpu").make(), self.device)
        given = {f.name: getattr(self, f.name) for f in fields(self)[1:]}
        defaults = {f.name: f.default for f in fields(self)[1:]}
        shown = [
            f'{k}="{v}"' if isinstance(v, str) else f"{k}={v!r}"
            for k, v in given.items()
            if v != defaults[k]
        ]
        return f"make_tensor({', '.join([str(self.shape), *shown])})"


def _literal(x: Tensor, device: str) -> str:
    """A call of `torch.tensor`, with the shortest numbers that give the very values back."""
    there = "" if device == "cpu" else f', device="{device}"'
    if not x.is_floating_point():
        return f"torch.tensor({x.tolist()}, dtype={x.dtype}{there})"
    # Those of float32 are exact for halves too.
    numbers = (x if x.dtype == torch.float64 else x.float()).numpy()
    shown = np.vectorize(lambda v: float(str(v)), otypes=[object])(numbers).tolist()
    dtype = "" if x.dtype == torch.float32 else f", dtype={x.dtype}"
    return f"torch.tensor({shown}{dtype}{there})"


def make_tensor(
    shape: tuple[int, ...],
    *,
    kind: str = "full",
    seed: int = 0,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
    layout: str = "contiguous",
    below: int = 2,
    device: str = "cpu",
) -> Tensor:
    """A tensor of a kind that statistics get wrong; the same at each call and on each device.

    Values that a type of small range cannot hold are scaled down until it can, as a whole.

    Args:
        shape: Its shape.
        kind: ``"full"`` normal values; ``"deficient"`` of rank one, whichever axis holds the
            features; ``"constant"``; ``"zero"``; ``"shifted"`` a mean a million times the
            spread; ``"sparse"`` normal values below zero cut off; ``"heavy"`` heavy-tailed
            (Cauchy); ``"nan"`` and ``"inf"`` one such value among normal ones; ``"indices"``
            whole numbers from 0, as int64 if no type is given.
        seed: Which of such tensors.
        scale: The factor of all values.
        dtype: Its type.
        layout: ``"contiguous"``; ``"transposed"`` the first and last axis swapped in memory;
            ``"strided"`` every second element of a larger tensor; ``"expanded"`` the first entry
            of axis 0 repeated without memory of its own (which makes all entries equal);
            ``"channels_last"`` for 4 axes.
        below: For ``"indices"``, what they stay below.
        device: Where it is.

    Raises:
        ValueError: There is no such kind or layout; says which there are.
    """
    generator = torch.Generator().manual_seed(seed)
    if kind == "indices":
        indices = torch.randint(below, shape, generator=generator)
        indices = indices if dtype == torch.float32 else indices.to(dtype)
        return _laid_out(indices.to(device), layout)
    if kind not in _FILL:
        raise ValueError(f"kind is {', '.join([*_FILL, 'indices'])}, not {kind!r}")
    values = _FILL[kind](torch.randn(shape, generator=generator, dtype=torch.float64)) * scale
    return _laid_out(_fitted(values, dtype).to(dtype).to(device), layout)


OVERWRITTEN = 255
"""The byte that memory is overwritten with: NaN in every type of numbers."""


def overwrite(x: Tensor) -> None:
    """Overwrites the memory that a tensor lies in, as whoever uses a buffer again does."""
    x.untyped_storage().fill_(OVERWRITTEN)  # pyright: ignore[reportAttributeAccessIssue] - torch leaves it out of its stubs


def _rank_one(normal: Tensor) -> Tensor:
    made = torch.ones((), dtype=normal.dtype)
    for axis, size in enumerate(normal.shape):
        factor = normal.movedim(axis, 0).reshape(size, -1)[:, :1]
        made = made * factor.reshape([-1 if i == axis else 1 for i in range(normal.ndim)])
    return made


def _with_one(value: float) -> Callable[[Tensor], Tensor]:
    def put(normal: Tensor) -> Tensor:
        flat = normal.reshape(-1)
        place = int(flat[:1].abs().sum() * 1e6) % max(len(flat), 1)
        flat[place : place + 1] = value if place % 2 or value != value else -value
        return normal

    return put


_FILL: dict[str, Callable[[Tensor], Tensor]] = {
    "full": lambda normal: normal,
    "deficient": _rank_one,
    "constant": lambda normal: torch.full_like(normal, 0.1),
    "shifted": lambda normal: normal + 1e6,
    "sparse": torch.relu,
    "heavy": lambda normal: torch.tan(torch.erf(normal / 2**0.5) * 1.5707),
    "zero": torch.zeros_like,
    "nan": _with_one(float("nan")),
    "inf": _with_one(float("inf")),
}


def _fitted(values: Tensor, dtype: torch.dtype) -> Tensor:
    # A sixteenth of the range is kept free: what is put through is doubled, and scaled losses
    # double again.
    if not dtype.is_floating_point:
        return values
    finite = values[values.isfinite()].abs()
    largest = finite.max().item() if finite.numel() else 0.0
    bound = torch.finfo(dtype).max / 16
    return values * (bound / largest) if largest > bound else values


def _laid_out(x: Tensor, layout: str) -> Tensor:
    if layout not in LAYOUTS:
        raise ValueError(f"layout is {', '.join(LAYOUTS)}, not {layout!r}")
    if x.ndim == 0 or layout == "contiguous":
        return x
    if layout == "transposed":
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "strided":
        return torch.stack([x, x + 1], dim=-1).flatten(-2)[..., ::2]
    if layout == "expanded":
        return x[:1].clone().expand(x.shape)
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x


@st.composite
def _tensors(
    draw: st.DrawFn,
    shapes: st.SearchStrategy[tuple[int, ...]],
    kinds: Sequence[str],
    dtypes: Sequence[torch.dtype],
    layouts: Sequence[str],
    scales: Sequence[float],
) -> TensorRecipe:
    dtype = draw(st.sampled_from(dtypes))
    fitting = [s for s in scales if dtype != torch.float16 or 1e-3 <= s <= 1e3] or [1.0]
    return TensorRecipe(
        shape=draw(shapes),
        kind=draw(st.sampled_from(kinds)),
        seed=draw(st.integers(0, 999)),
        scale=draw(st.sampled_from(fitting)),
        dtype=dtype,
        layout=draw(st.sampled_from(layouts)),
    )


def tensors(
    shapes: st.SearchStrategy[tuple[int, ...]] = SHAPES,
    *,
    kinds: Sequence[str] = KINDS,
    dtypes: Sequence[torch.dtype] = DTYPES,
    layouts: Sequence[str] = LAYOUTS,
    scales: Sequence[float] = SCALES,
    device: str = "cpu",
) -> st.SearchStrategy[TensorRecipe]:
    """Draws recipes of tensors; ``recipe.make()`` is the tensor.

    Each list begins with the simplest: examples that fail are shrunk towards it.

    Args:
        shapes: Draws shapes.
        kinds: The kinds of values; see `make_tensor`.
        dtypes: Their types.
        layouts: How they lie in memory; see `make_tensor`.
        scales: Their factors (float16 takes those that it has digits for).
        device: Where they are, and what a check puts them through.
    """
    drawn = _tensors(shapes, kinds, dtypes, layouts, scales)
    return drawn if device == "cpu" else drawn.map(lambda recipe: replace(recipe, device=device))
