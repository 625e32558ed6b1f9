"""Modules whose forward tests if a tensor is a view."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType

from torch import nn

_QUESTIONS = frozenset(("_is_view", "_base"))


def asks_of_views(module: nn.Module) -> bool:
    """True if the code of a module's forward, or of one of its parts', tests that.

    The gradient of an input is read by a view of it, so that a change in place reaches all other
    names of the tensor. Only such a test can distinguish the two.
    """
    return any(_asks(code) for part in module.modules() for code in _code_of(part))


def _code_of(module: nn.Module) -> Iterator[CodeType]:
    code = getattr(inspect.unwrap(module.forward), "__code__", None)
    if isinstance(code, CodeType):
        yield code


def _asks(code: CodeType) -> bool:
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return not _QUESTIONS.isdisjoint(code.co_names) or any(map(_asks, inner))
