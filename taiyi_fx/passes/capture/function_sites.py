"""The functions that forwards which stayed Python seem to call, by their code."""

from __future__ import annotations

import dis
import operator
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from torch import nn

from taiyi_fx.passes.capture.captured import Capture, site_of

Function = Callable[..., Any]

# How Python spells an operator, and what torch is then asked for.
OPERATORS = {
    operator.add: ("+", "add"),
    operator.sub: ("-", "sub"),
    operator.mul: ("*", "mul"),
    operator.truediv: ("/", "div"),
    operator.matmul: ("@", "matmul"),
    operator.pow: ("**", "pow"),
    operator.iadd: ("+=", "add_"),
    operator.isub: ("-=", "sub_"),
    operator.imul: ("*=", "mul_"),
    operator.itruediv: ("/=", "div_"),
}
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
            named = [getattr(kind, name, None) for name in inner.co_names]
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
        sign = OPERATORS[function][0]
        return any(
            i.opname.startswith(("BINARY", "INPLACE")) and _sign_of(i) == sign
            for i in dis.get_instructions(code)
        )
    return getattr(function, "__name__", "") in code.co_names


def _sign_of(instruction: dis.Instruction) -> str:
    if instruction.opname == "BINARY_OP":
        return instruction.argrepr
    return _OLD_SIGNS.get(instruction.opname, "")  # Python 3.10


_OLD_NAMES = "ADD SUBTRACT MULTIPLY TRUE_DIVIDE MATRIX_MULTIPLY POWER".split()
_OLD_SIGNS = {
    f"{kind}_{name}": f"{sign}{'=' if kind == 'INPLACE' else ''}"
    for kind in ("BINARY", "INPLACE")
    for name, sign in zip(_OLD_NAMES, "+ - * / @ **".split(), strict=True)
}
