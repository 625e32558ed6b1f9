"""Lets a trace record tensors that are made of sizes that flow in, such as ``torch.ones(t, t)``.

torch itself refuses a proxy as the first of several sizes, before a trace can see the call; torch
2.6 refuses it as any argument of a factory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate

FACTORIES = (
    *("ones", "zeros", "empty", "rand", "randn", "tensor", "as_tensor"),
    *("full", "arange", "linspace", "logspace", "eye", "randint", "randperm"),
)


@contextmanager
def recorded_factories() -> Iterator[None]:
    """In the body, torch's factories are recorded where a proxy is among their arguments.

    The recorded call is the function's own, made anew at each run: the sizes, the default device
    and the default type are those of then.
    """
    before = {name: getattr(torch, name) for name in FACTORIES}
    for name, function in before.items():
        setattr(torch, name, _recording(function))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(torch, name, function)


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = _first_proxy((args, kwargs))
        if proxy is None:
            return function(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", function, args, kwargs)

    return record


def _first_proxy(values: Any) -> fx.Proxy | None:
    leaves: list[Any] = []
    map_aggregate(values, leaves.append)
    return next((leaf for leaf in leaves if isinstance(leaf, fx.Proxy)), None)
