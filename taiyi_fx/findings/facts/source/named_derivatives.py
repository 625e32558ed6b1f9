"""Derivatives that code computes by ``torch.autograd.grad``, or a function of it, and names."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from taiyi_fx.findings.facts.source.syntax import FUNCTIONS, Function, walked

HOMES = frozenset("torch F torch.nn.functional torch.linalg".split())
"""Where functions of torch are called."""


class Derivative(NamedTuple):
    """A derivative by a name.

    Attributes:
        call: The call that computes it.
        of: The name of what is differentiated.
        by: The name of what it is differentiated by.
    """

    call: ast.Call
    of: str
    by: str


def functions_of(tree: ast.Module) -> Mapping[str, Function]:
    """The functions of a file, by their names."""
    return {x.name: x for x in walked(tree) if isinstance(x, FUNCTIONS)}


def derived(values: Sequence[ast.expr], helpers: Mapping[str, Function]) -> Derivative | None:
    """The derivative that a name stands for wherever it is set; None of others."""
    value = values[0]
    while isinstance(value, ast.Subscript):
        value = value.value
    if len(values) > 1 or not isinstance(value, ast.Call):
        return None
    if _is_derivative(value):
        of, by = value.args[:2]
        return Derivative(value, name_in(of), name_in(by))
    helper = helpers.get(ast.unparse(value.func))
    returned = None if helper is None else _returned(helper)
    if helper is None or returned is None:
        return None
    names = [argument.arg for argument in helper.args.args]
    given = dict(zip(names, value.args, strict=False))
    of, by = (given.get(name_in(x)) for x in returned.args[:2])
    if of is None or by is None:
        return None
    return Derivative(_as_asked(returned, helper, value), name_in(of), name_in(by))


def _as_asked(returned: ast.Call, helper: Function, call: ast.Call) -> ast.Call:
    """The derivative that a function returns, with what it hands on from a call: ``**options``."""
    options = helper.args.kwarg.arg if helper.args.kwarg else ""
    handed = [x for x in returned.keywords if x.arg is None and ast.unparse(x.value) == options]
    if not handed:
        return returned
    own = {x.arg for x in (*helper.args.args, *helper.args.kwonlyargs)}
    more = [keyword for keyword in call.keywords if keyword.arg not in own]
    told = [keyword for keyword in returned.keywords if keyword not in handed] + more
    return ast.copy_location(ast.Call(returned.func, returned.args, told), call)


def _returned(helper: Function) -> ast.Call | None:
    """The derivative that a function of one line returns."""
    (last,) = helper.body[-1:]
    value = last.value if isinstance(last, ast.Return) else None
    while isinstance(value, ast.Subscript):
        value = value.value
    is_it = isinstance(value, ast.Call) and _is_derivative(value)
    return value if is_it and isinstance(value, ast.Call) else None


def _is_derivative(call: ast.Call) -> bool:
    is_grad = ast.unparse(call.func).endswith("autograd.grad")
    return is_grad and len(call.args) > 1


def name_in(value: ast.expr) -> str:
    """The variable that something is the sum or the first entry of; empty of others."""
    while not isinstance(value, ast.Name):
        if isinstance(value, ast.Call):
            of = value.func.value if isinstance(value.func, ast.Attribute) else None
            is_home = of is None or ast.unparse(of) in HOMES
            found = next(iter(value.args), None) if is_home else of
        else:
            found = value.value if isinstance(value, (ast.Subscript, ast.Attribute)) else None
        if not isinstance(found, ast.expr):
            return ""
        value = found
    return value.id
