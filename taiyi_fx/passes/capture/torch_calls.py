"""Torch's functions that a graph may call: they compute, and change nothing but tensors."""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import get_overridable_functions

from taiyi_fx.passes.capture.lookup import TENSOR_METHODS
from taiyi_fx.passes.capture.operators import BINARY, COMPARISON, UNARY
from taiyi_fx.passes.capture.source import is_torchs_file

_ASKS = frozenset("equal allclose get_device is_tensor is_storage is_nonzero result_type".split())
_MORE = (
    *("rand_like", "randn_like", "randint_like", "unflatten", "as_tensor", "asarray"),
    *("rand", "randn", "randint", "randperm", "normal", "promote_types"),
)
_MORE_FUNCTIONAL = ("hardswish", "hardsigmoid", "sigmoid", "tanh", "upsample")
_MAKERS = (
    *("arange", "empty", "eye", "full", "linspace", "logspace", "ones", "scalar_tensor", "tensor"),
    *("tril_indices", "triu_indices", "zeros", "hann_window", "hamming_window"),
)


def by_identity(functions: Iterable[Any]) -> dict[int, Any]:
    """Functions by their identity; held, so that no other object gets the same one."""
    return {id(function): function for function in functions}


@functools.cache
def _computing() -> dict[int, Any]:
    """Torch's functions that compute tensors from tensors."""
    every = [f for found in get_overridable_functions().values() for f in found]
    every += [getattr(torch, name) for name in _MORE]
    every += [getattr(F, name) for name in _MORE_FUNCTIONAL]
    every += [torch._assert]
    every += [f for space in (torch, F) for name, f in vars(space).items() if _is_in_place(name)]
    return by_identity(f for f in every if callable(f) and _computes(f))


def _is_in_place(name: str) -> bool:
    return (
        name.endswith("_") and name[0] != "_" and not name.startswith(("set_", "resize", "detach"))
    )


def _computes(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    if isinstance(function, types.FunctionType):  # another one was put in its place
        is_torchs = is_torchs_file(function.__code__.co_filename)
    else:
        is_torchs = True
    # Of a tensor's, the same that a graph may call as methods.
    is_method = hasattr(function, "__objclass__") or vars(torch.Tensor).get(name) is function
    may_be_called = name in TENSOR_METHODS or not is_method
    return is_torchs and may_be_called and not name.startswith("is_") and name not in _ASKS


_MAKING = by_identity(getattr(torch, name) for name in _MAKERS)
_OPERATING = by_identity(
    (*BINARY.values(), *UNARY.values(), *COMPARISON.values(), operator.getitem, operator.abs)
)
MATH = by_identity(f for f in vars(math).values() if isinstance(f, types.BuiltinFunctionType))
NUMERIC = MATH | by_identity((int, float, len, abs, round, min, max))
"""Functions of numbers, which may flow; their results flow, too."""


def takes_what_flows(function: Any) -> bool:
    """True if a graph may call a function with values that flow."""
    number = id(function)
    return any(number in found for found in (_computing(), _MAKING, _OPERATING, NUMERIC))


def makes_new_tensor(function: Any) -> bool:
    """True if a function makes the same new tensor at each call, without values that flow."""
    return id(function) in _MAKING


_STATES = (
    *((torch.compiler, name) for name in ("is_compiling", "is_dynamo_compiling", "is_exporting")),
    *((torch.jit, name) for name in ("is_scripting", "is_tracing")),
)
ASKED = by_identity(getattr(home, name) for home, name in _STATES if hasattr(home, name))
"""Functions whose answer, False or True, stays the same during a forward."""
