"""Code that is run in float64, whatever types it asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_DRAWS = (torch.rand, torch.randn, torch.rand_like, torch.randn_like)
_CASTS = (Tensor.float, Tensor.half, Tensor.bfloat16)


@contextmanager
def widened() -> Iterator[None]:
    """In the body, what is converted to a smaller real type is converted to float64.

    Many models compute their norms, or their loss, in float32: with those, a difference of two
    losses would know seven digits and not fifteen.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widened():
            yield
    finally:
        torch.set_default_dtype(before)


class _Widened(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _CASTS:
            return args[0].to(torch.float64)
        if func in _DRAWS and _is_real(args, kwargs or {}):
            # Of float32, which are the numbers that the step draws where it is not widened.
            return func(*args, **{**(kwargs or {}), "dtype": torch.float32}).to(torch.float64)
        wide = {name: _wide(value) for name, value in (kwargs or {}).items()}
        return func(*map(_wide, args), **wide)


def _is_real(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True if real numbers are drawn, by the type that is asked for or that of a tensor."""
    like = next((x.dtype for x in args if isinstance(x, Tensor)), torch.float64)
    return (kwargs.get("dtype") or like).is_floating_point


def _wide(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value
