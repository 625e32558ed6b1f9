"""Modules to put tensors through: those that any tensor fits, and torch's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from taiyi_fx.testing.tensor import TensorRecipe


class _Twice(nn.Module):
    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name for it
        """Twice the input."""
        return input * 2


class LinearLike(_Twice, nn.Linear):
    """A Linear by class whose output is twice its input, exactly: any tensor can be put through.

    So can any gradient, and whoever reads the wrong side gets the wrong number. Its weight and
    bias are any tensors too, and take no part.
    """

    def __init__(self, weight: Tensor | None = None, bias: Tensor | None = None) -> None:
        super().__init__(1, 1)
        _give_parameters(self, weight, bias)


class Conv1dLike(_Twice, nn.Conv1d):
    """A Conv1d by class whose output is twice its input; otherwise as `LinearLike`."""

    def __init__(self, weight: Tensor | None = None, bias: Tensor | None = None) -> None:
        super().__init__(1, 1, 1)
        _give_parameters(self, weight, bias)


class Conv2dLike(_Twice, nn.Conv2d):
    """A Conv2d by class whose output is twice its input; otherwise as `LinearLike`."""

    def __init__(self, weight: Tensor | None = None, bias: Tensor | None = None) -> None:
        super().__init__(1, 1, 1)
        _give_parameters(self, weight, bias)


def _give_parameters(module: nn.Module, weight: Tensor | None, bias: Tensor | None) -> None:
    ones = torch.ones_like(module.get_parameter("weight").data)
    module.register_parameter("weight", nn.Parameter(ones if weight is None else weight))
    module.register_parameter("bias", None if bias is None else nn.Parameter(bias))


class PlainLike(_Twice):
    """A module of no known class and without parameters whose output is twice its input."""


class BatchNorm1dLike(_Twice, nn.BatchNorm1d):
    """A BatchNorm1d by class whose output is twice its input.

    Its running statistics are random and stay as they are.

    Args:
        num_features: How many channels.
        scale: The size of the running mean and the running deviation.
        seed: Which running statistics.
    """

    def __init__(self, num_features: int, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__(num_features, affine=False)
        _fill_running_statistics(self, scale, seed)


class BatchNorm2dLike(_Twice, nn.BatchNorm2d):
    """A BatchNorm2d by class whose output is twice its input; otherwise as `BatchNorm1dLike`."""

    def __init__(self, num_features: int, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__(num_features, affine=False)
        _fill_running_statistics(self, scale, seed)


def _fill_running_statistics(
    norm: nn.BatchNorm1d | nn.BatchNorm2d, scale: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    norm.running_mean.normal_(generator=generator).mul_(scale)
    norm.running_var.uniform_(0.5, 2.0, generator=generator).mul_(scale).mul_(scale)


@dataclass(frozen=True)
class ModuleRecipe:
    """A way to make a module, and its fitting input; its repr is the code that makes it.

    Attributes:
        kind: The module's class, or a function that returns one.
        args: The positional arguments of its class.
        options: The keyword arguments of its class.
        shape: The shape of one sample that fits: an input's without the batch axis.
        below: Inputs are indices below this; None for numbers.
        seed: The seed that its parameters are initialised from.
        dtype: The type of its parameters and of inputs that fit.
        device: Where these are.
    """

    kind: Callable[..., nn.Module]
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
    below: int | None = None
    seed: int = 0
    dtype: torch.dtype = torch.float32
    device: str = "cpu"

    def make(self) -> nn.Module:
        """A new and equal module at each call; the random state stays as it was."""
        generator = torch.default_generator  # torch.manual_seed takes a millisecond
        before = generator.get_state()
        generator.manual_seed(self.seed)
        try:
            options = {k: _made(v) for k, v in self.options.items()}
            made = self.kind(*map(_made, self.args), **options)
        finally:
            generator.set_state(before)
        made = made if self.dtype == torch.float32 else made.to(self.dtype)
        return made if self.device == "cpu" else made.to(self.device)

    @property
    def is_in_place(self) -> bool:
        """True if the module was asked to change its input in place."""
        return bool(self.options.get("inplace"))

    def input(self, rows: int, **values: Any) -> TensorRecipe:
        """A fitting input of so many samples; ``values`` as for `make_tensor`."""
        shape = (rows, *self.shape)
        if self.below is not None:
            seed = values.get("seed", 0)
            given = {"dtype": torch.int64, "below": self.below, "device": self.device}
            return TensorRecipe(shape, "indices", seed, **given)
        return TensorRecipe(shape, **{**values, "dtype": self.dtype, "device": self.device})

    def __repr__(self) -> str:
        parts = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.options.items())]
        home = getattr(self.kind, "__module__", "")
        name = getattr(self.kind, "__name__", repr(self.kind))
        called = f"nn.{name}" if home.startswith("torch.nn.") else name
        cast = "" if self.dtype == torch.float32 else f".to({self.dtype})"
        moved = "" if self.device == "cpu" else f'.to("{self.device}")'
        return f"{called}({', '.join(parts)}){cast}{moved}"


def _made(value: Any) -> Any:
    return value.make() if isinstance(value, TensorRecipe) else value


def _recipes() -> tuple[ModuleRecipe, ...]:
    d, made = 4, ModuleRecipe
    return (
        made(nn.Linear, (d, 3), shape=(d,)),
        made(nn.Linear, (d, 3), {"bias": False}, shape=(5, d)),
        made(nn.Conv1d, (d, 3, 2), shape=(d, 5)),
        made(nn.Conv2d, (d, 2, 3), {"padding": 1}, shape=(d, 4, 3)),
        made(nn.Conv2d, (d, d, 2), {"groups": 2, "bias": False}, shape=(d, 4, 3)),
        made(nn.BatchNorm1d, (d,), shape=(d, 3)),
        made(nn.BatchNorm2d, (d,), shape=(d, 3, 2)),
        made(nn.LayerNorm, (d,), shape=(3, d)),
        made(nn.GroupNorm, (2, d), shape=(d, 3)),
        made(nn.InstanceNorm1d, (d,), {"affine": True}, shape=(d, 3)),
        made(nn.Embedding, (7, d), shape=(3,), below=7),
        made(nn.ReLU, shape=(d,)),
        made(nn.ReLU, (), {"inplace": True}, shape=(d, 3)),
        made(nn.GELU, shape=(d,)),
        made(nn.SiLU, (), {"inplace": True}, shape=(d, 3, 2)),
        made(nn.Tanh, shape=(3, d)),
        made(nn.Identity, shape=(d,)),
    )


def modules(
    *kinds: type[nn.Module], dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float64)
) -> st.SearchStrategy[ModuleRecipe]:
    """Draws recipes of torch's own modules, each with the shape of an input that fits.

    Linear, convolutions, norms, embeddings and activations, some in place.

    Args:
        *kinds: Only modules of these classes; by default all.
        dtypes: Types of their parameters and inputs.

    Raises:
        ValueError: None is of such a class.
    """
    chosen = [r for r in _recipes() if not kinds or isinstance(r.make(), kinds)]
    if not chosen:
        names = ", ".join(dict.fromkeys(r.kind.__name__ for r in _recipes()))
        raise ValueError(f"none of these classes is in the kit; it has {names}")
    drawn = st.sampled_from(chosen), st.integers(0, 99), st.sampled_from(dtypes)
    return st.tuples(*drawn).map(lambda d: dataclasses.replace(d[0], seed=d[1], dtype=d[2]))


def likes(x: TensorRecipe, scale: float = 1.0) -> tuple[ModuleRecipe, ...]:
    """Modules that put any tensor through, of every class whose features such a tensor can have."""
    shape = x.shape[1:]
    channels = shape[0] if shape else 1
    statistics = (channels,) if scale == 1.0 else (channels, scale)
    norm_dtype = x.dtype if x.dtype == torch.float64 else torch.float32

    def norm(kind: type[nn.Module]) -> ModuleRecipe:
        return ModuleRecipe(kind, statistics, shape=shape, dtype=norm_dtype)

    by_rank: dict[int, tuple[ModuleRecipe, ...]] = {
        2: (norm(BatchNorm1dLike),),
        3: (ModuleRecipe(Conv1dLike, shape=shape), norm(BatchNorm1dLike)),
        4: (ModuleRecipe(Conv2dLike, shape=shape), norm(BatchNorm2dLike)),
    }
    first = (ModuleRecipe(LinearLike, shape=shape), ModuleRecipe(PlainLike, shape=shape))
    return (*first, *by_rank.get(len(x.shape), ()))
