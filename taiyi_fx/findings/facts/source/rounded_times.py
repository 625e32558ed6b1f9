"""Seconds since 1970 that code makes single precision of, before it takes anything off them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from taiyi_fx.findings.facts.source.syntax import FUNCTIONS, called, values_in, walked

_SECONDS = range(900_000_000, 2_300_000_000)
"""Numbers of seconds since 1970 from 1998 to 2042."""
_UNITS = (1, 1_000, 1_000_000, 1_000_000_000)
"""Seconds, and thousandths and less of them."""
_SINGLE = ("float32", "single")
_CASTS = frozenset("to astype tensor as_tensor array asarray float FloatTensor float32".split())
_PLAIN = frozenset("sort sorted from_numpy array asarray tensor as_tensor to astype long".split())
"""Functions that hand numbers on as they are."""
_HOMES = ("np", "numpy", "torch")
_FAR = 4
"""Names between a number and what is cast."""


def rounded_times(tree: ast.Module) -> Iterator[ast.expr]:
    """The casts to single precision of what is made of a time in seconds since 1970.

    As ``torch.tensor(stamps, dtype=torch.float32)`` of ``stamps = 1_700_000_000 + seconds``: it has
    24 bits, and such numbers are then two minutes apart.
    """
    values = values_in(walked(tree))
    for name, given in _given_to_functions(tree):
        values.setdefault(name, []).append(given)
    for call in (x for x in walked(tree) if isinstance(x, ast.Call)):
        of = _cast(call)
        if of is not None and _is_time(of, values, _FAR):
            yield call


def _given_to_functions(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The arguments of the file's functions, each with what a call gives it in its place."""
    functions = {x.name: x.args.args for x in walked(tree) if isinstance(x, FUNCTIONS)}
    for call in (x for x in walked(tree) if isinstance(x, ast.Call)):
        of = functions.get(ast.unparse(call.func), [])
        yield from ((own.arg, given) for own, given in zip(of, call.args, strict=False))


def _cast(call: ast.Call) -> ast.expr | None:
    """The thing that a call makes single precision of; None of another call."""
    name, of = called(call), call.func
    told = [ast.unparse(x) for x in (*call.args, *(x.value for x in call.keywords))]
    is_single = name in ("float", "FloatTensor", "float32") or any(
        text.strip("'\"").rpartition(".")[2] in _SINGLE for text in told
    )
    if name not in _CASTS or not is_single:
        return None
    is_method = name in ("to", "astype", "float") and isinstance(of, ast.Attribute)
    if is_method and isinstance(of, ast.Attribute):
        return of.value
    is_plain = name == "float" or not call.args  # Python's own has double precision
    return None if is_plain else call.args[0]


def _is_time(value: ast.expr, values: Mapping[str, Sequence[ast.expr]], far: int) -> bool:
    """True for a sum with such a number, as it is or by a name that has no other value."""
    value = _handed_on(value)
    if isinstance(value, ast.Constant):
        return type(value.value) is int and any(value.value // unit in _SECONDS for unit in _UNITS)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return any(_is_time(side, values, far) for side in (value.left, value.right))
    if isinstance(value, (ast.Name, ast.Attribute)) and far:
        known = values.get(ast.unparse(value), ())
        return bool(known) and all(_is_time(x, values, far - 1) for x in known)
    return False


def _handed_on(value: ast.expr) -> ast.expr:
    """The thing that functions and methods hand on as it is."""
    while isinstance(value, ast.Call) and called(value) in _PLAIN:
        of = value.func
        is_method = isinstance(of, ast.Attribute) and ast.unparse(of.value) not in _HOMES
        if is_method and isinstance(of, ast.Attribute):
            value = of.value
        elif value.args:
            value = value.args[0]
        else:
            break
    return value
