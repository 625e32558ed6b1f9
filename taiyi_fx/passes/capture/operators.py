"""Python's operators: the functions that its syntax calls."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

SIGNS: dict[str, tuple[type[ast.operator], Function, Function]] = {
    "+": (ast.Add, operator.add, operator.iadd),
    "-": (ast.Sub, operator.sub, operator.isub),
    "*": (ast.Mult, operator.mul, operator.imul),
    "/": (ast.Div, operator.truediv, operator.itruediv),
    "//": (ast.FloorDiv, operator.floordiv, operator.ifloordiv),
    "%": (ast.Mod, operator.mod, operator.imod),
    "**": (ast.Pow, operator.pow, operator.ipow),
    "@": (ast.MatMult, operator.matmul, operator.imatmul),
    "&": (ast.BitAnd, operator.and_, operator.iand),
    "|": (ast.BitOr, operator.or_, operator.ior),
    "^": (ast.BitXor, operator.xor, operator.ixor),
    "<<": (ast.LShift, operator.lshift, operator.ilshift),
    ">>": (ast.RShift, operator.rshift, operator.irshift),
}
"""Operators of two values: the class in syntax trees, the function, and that of ``a += b``."""

BINARY: dict[type, Function] = {form: function for form, function, _ in SIGNS.values()}
IN_PLACE: dict[type, Function] = {form: function for form, _, function in SIGNS.values()}
COMPARISON: dict[type, Function] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
UNARY: dict[type, Function] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert
}  # fmt: skip

IN_PLACE_OPERATORS = frozenset(IN_PLACE.values())
"""Operators that change their first operand in place, where it can be changed."""
