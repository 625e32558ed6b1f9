"""Bitwise comparison of values of any structure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

_SCALARS = (bool, int, float, complex, str, bytes, type(None))

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def leaves(value: Any, path: str = "output") -> Iterator[tuple[str, Any]]:
    """Tensors and scalars of a structure with their paths; of other things, their type's name."""
    yield from _leaves(value, path, set())


def _leaves(value: Any, path: str, above: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (Tensor, *_SCALARS)):
        yield path, value
        return
    yield f"type of {path}", type(value).__name__
    if id(value) not in above:
        for key, part in _parts(value):
            yield from _leaves(part, f"{path}.{key}", above | {id(value)})


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
    if isinstance(value, (nn.Module, type)) or callable(value):
        return ()
    return getattr(value, "__dict__", {}).items()  # such as a cache of keys and values


def kept(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Values by path, with tensors copied, so that later changes do not reach them; and strides."""
    found = dict(values)
    copies = {path: v.detach().clone() if isinstance(v, Tensor) else v for path, v in found.items()}
    return copies | strides(found)


def strides(values: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """How the tensors among values lie in memory, which the next layer may act upon."""
    return {
        f"strides of {path}": v.stride()
        for path, v in values.items()
        if isinstance(v, Tensor) and v.layout is torch.strided and not v.is_nested
    }


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """How two collections of leaves differ, one line each; empty if they are equal bit for bit."""
    lines = [f"{path} is missing" for path in expected if path not in found]
    lines += [f"{path} is new" for path in found if path not in expected]
    both = [path for path in expected if path in found]
    return lines + [
        f"{path}: {how}" for path in both if (how := _difference(expected[path], found[path]))
    ]


def _difference(a: Any, b: Any) -> str:
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        same = type(a) is type(b) and (a == b or (a != a and b != b))
        return "" if same else f"{a!r} became {b!r}"
    if (a.dtype, a.shape, a.layout) != (b.dtype, b.shape, b.layout):
        return f"{a.dtype} {tuple(a.shape)} became {b.dtype} {tuple(b.shape)}"
    if torch.equal(_bits(a), _bits(b)):
        return ""
    if not a.is_floating_point():
        return "other values"
    a, b = a.detach().double(), b.detach().double()
    return f"differs by up to {(a - b).abs().max():.3g} of {a.abs().max():.3g}"


def _bits(x: Tensor) -> Tensor:
    x = x.detach().to_dense()
    x = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    return x.resolve_neg().view(_INTEGERS[x.element_size()])
