"""The functions that forwards which stayed Python seem to call, by their code."""

from __future__ import annotations

import dis
import functools
import operator
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from torch import nn

from taiyi_fx.passes.capture.captured import Capture, site_of

Function = Callable[..., Any]

_SIGNS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "@": operator.matmul,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift,
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul,
    "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor,
    "<<=": operator.ilshift, ">>=": operator.irshift,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "[]": operator.getitem,
}  # fmt: skip
# What Python 3.10 calls those of two operands, for BINARY and INPLACE alike.
_OLD_SIGNS = {
    "ADD": "+", "SUBTRACT": "-", "MULTIPLY": "*", "TRUE_DIVIDE": "/", "FLOOR_DIVIDE": "//",
    "MODULO": "%", "POWER": "**", "MATRIX_MULTIPLY": "@", "AND": "&", "OR": "|", "XOR": "^",
    "LSHIFT": "<<", "RSHIFT": ">>",
}  # fmt: skip
_NAMED = {
    "UNARY_NEGATIVE": operator.neg, "UNARY_POSITIVE": operator.pos,
    "INTRINSIC_UNARY_POSITIVE": operator.pos, "UNARY_INVERT": operator.invert,
    "BINARY_SUBSCR": operator.getitem, "BINARY_SLICE": operator.getitem,
    "STORE_SUBSCR": operator.setitem, "STORE_SLICE": operator.setitem,
    **{f"BINARY_{name}": _SIGNS[sign] for name, sign in _OLD_SIGNS.items()},
    **{f"INPLACE_{name}": _SIGNS[f"{sign}="] for name, sign in _OLD_SIGNS.items()},
}  # fmt: skip
OPERATORS = frozenset((*_SIGNS.values(), *_NAMED.values()))
"""The functions of `operator` that Python's syntax calls."""
_DEEPEST = 4


def add_sites_in_python(
    capture: Capture, modules: Mapping[str, nn.Module], functions: Collection[Function]
) -> None:
    """Adds a site for each function that a forward which stayed Python seems to call."""
    for name in capture.python if functions else ():
        code = list(_codes(modules[name]))
        for function in functions:
            if any(_mentions(each, function) for each in code):
                site = site_of(name, function, capture.functions)
                capture.functions[site] = function
                capture.sites.setdefault(name, []).append(site)


def _codes(module: nn.Module) -> Iterator[types.CodeType]:
    """The code of a module's forward, and of its own methods and functions that it names."""
    kind, waiting = type(module), [(getattr(type(module), "forward", None), 0)]
    seen: set[types.CodeType] = set()
    while waiting:
        function, depth = waiting.pop()
        function = getattr(function, "__wrapped__", function)
        if not isinstance(function, types.FunctionType) or depth > _DEEPEST:
            continue
        code = function.__code__
        if code in seen:
            continue
        seen.add(code)
        for inner in _nested(code):
            yield inner
            named = [getattr(k, name, None) for k in kind.__mro__ for name in inner.co_names]
            named += [function.__globals__.get(name) for name in inner.co_names]
            waiting += [(found, depth + 1) for found in named if _is_the_users(found)]


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _is_the_users(found: Any) -> bool:
    is_function = isinstance(found, types.FunctionType)
    return is_function and (found.__module__ or "").partition(".")[0] != "torch"


def _mentions(code: types.CodeType, function: Function) -> bool:
    if function in OPERATORS:
        return function in operators_in(code).values()
    return getattr(function, "__name__", "") in code.co_names


@functools.cache
def operators_in(code: types.CodeType) -> dict[int, Function]:
    """The operators of a code, by the offsets of their instructions."""
    found = {i.offset: _operator_of(i) for i in dis.get_instructions(code)}
    return {offset: function for offset, function in found.items() if function is not None}


def _operator_of(instruction: dis.Instruction) -> Function | None:
    name, shown = instruction.opname, instruction.argrepr
    if name in ("BINARY_OP", "COMPARE_OP"):
        return _SIGNS.get(shown.removeprefix("bool(").rstrip(")"))  # 3.13: `if a < b` is bool(<)
    return _NAMED.get(shown if name == "CALL_INTRINSIC_1" else name)
