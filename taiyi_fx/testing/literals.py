"""Values as code: tensors, arrays, numbers and texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from taiyi_fx.testing.tensor import TensorRecipe

_LITERAL = 12  # tensors of up to so many elements stand there as their values


def array_text(value: Any) -> str:
    """Code that makes an array, as a tensor."""
    tensor = torch.as_tensor(value)
    shown = _nested(tensor.tolist())
    return f"torch.tensor({shown}, dtype={tensor.dtype})"


def tensor_text(recipe: TensorRecipe) -> str:
    """Code that makes a recipe's tensor: its values if they are few, else the recipe."""
    made = recipe.make()
    if made.numel() > _LITERAL or recipe.layout != "contiguous":
        return repr(recipe)
    if not made.is_floating_point():
        return f"torch.tensor({made.tolist()}, dtype={made.dtype})"
    dtype = "" if made.dtype == torch.float32 else f", dtype={made.dtype}"
    return f"torch.tensor({_nested(_shortest(made))}{dtype})"


def _shortest(x: torch.Tensor) -> Any:
    # Shortest texts that give the very values back: those of float32 are exact for halves too.
    numbers = (x if x.dtype == torch.float64 else x.float()).numpy()
    return np.vectorize(lambda v: float(str(v)), otypes=[object])(numbers).tolist()


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    return number_text(value)


def number_text(value: Any) -> str:
    """Code for a number, an array, or a dictionary of numbers."""
    if isinstance(value, Mapping):
        return repr({k: float(v) for k, v in value.items()})
    if np.shape(value):
        return array_text(value)
    if isinstance(value, (bool, int)):
        return repr(value)
    return repr(float(value)) if math.isfinite(value) else f"math.{_special(float(value))}"


def _special(value: float) -> str:
    return "nan" if math.isnan(value) else "inf" if value > 0 else "inf * -1"


def quoted(text: str) -> str:
    """A text as code."""
    return repr(text) if '"' in text or "\\" in text else f'"{text}"'
