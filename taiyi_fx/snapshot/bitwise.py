"""Values of any structure, compared bit for bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

SCALARS = (bool, int, float, complex, str, bytes, type(None))

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_DEEPEST = 20


def leaves(value: Any, path: str = "output") -> Iterator[tuple[str, Any]]:
    """Tensors and scalars of a structure with their paths; of other things, their type's name."""
    yield from _leaves(value, path, frozenset())


def _leaves(value: Any, path: str, above: frozenset[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (Tensor, *SCALARS)):
        yield path, value
        return
    yield f"type of {path}", type(value).__name__
    if isinstance(value, (set, frozenset)):
        yield path, {part for part in value if isinstance(part, SCALARS)}
    elif id(value) not in above and len(above) < _DEEPEST:
        for step, part in _parts(value):
            yield from _leaves(part, f"{path}{step}", above | {id(value)})


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return ((f"[{key!r}]", part) for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return ((f"[{i}]", part) for i, part in enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((f".{f.name}", getattr(value, f.name)) for f in dataclasses.fields(value))
    if isinstance(value, (nn.Module, type)) or callable(value):
        return ()
    held = getattr(value, "__dict__", {})  # such as a cache of keys and values
    return ((f".{name}", part) for name, part in held.items())


def kept(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Values by path, with copies of tensors, so that they stay as they are; and strides."""
    found = dict(values)
    copies = {path: v.detach().clone() if isinstance(v, Tensor) else v for path, v in found.items()}
    return copies | strides(found)


def strides(values: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The strides of all tensors among values, as later layers may depend on them."""
    return {
        f"strides of {path}": v.stride()
        for path, v in values.items()
        if isinstance(v, Tensor) and v.layout is torch.strided and not v.is_nested
    }


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Paths at which two collections of leaves are not equal bit for bit, with the difference."""
    for path, value in expected.items():
        how = difference(value, found[path]) if path in found else "is missing"
        if how:
            yield path, how
    yield from ((path, "is new") for path in found if path not in expected)


def difference(a: Any, b: Any) -> str:
    """The difference of two leaves in words; empty if they are equal bit for bit."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        same = type(a) is type(b) and (a == b or (a != a and b != b))
        if same:
            return ""
        return "other values" if isinstance(a, bytes) else f"{_shown(a)} became {_shown(b)}"
    if (a.dtype, a.shape, a.layout) != (b.dtype, b.shape, b.layout):
        return f"{_shown(a)} became {_shown(b)}"
    if torch.equal(_bits(a), _bits(b)):
        return ""
    if not a.is_floating_point() or not a.numel():
        return "other values"
    a, b = _dense(a).double(), _dense(b).double()
    return f"by up to {(a - b).abs().max():.3g} of {a.abs().max():.3g}"


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} of {value.dtype}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _bits(x: Tensor) -> Tensor:
    x = _dense(x)
    x = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    return x.resolve_neg().view(_INTEGERS[x.element_size()])


def _dense(x: Tensor) -> Tensor:
    x = x.detach()
    to_local = getattr(x, "to_local", None)
    x = x if to_local is None else to_local()  # a DTensor: what is here of it
    if x.is_nested:
        return torch.cat([part.reshape(-1) for part in x.unbind()])
    if x.is_quantized:
        return x.int_repr()
    return x.to_dense()
