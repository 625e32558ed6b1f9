"""Noise of samples and codes: by the share of a single step, or drawn uniformly."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    Function,
    Scope,
    called,
    calls_in,
    factors_of,
    inner,
    method_of,
    scopes_of,
    signed_terms_of,
    statements_in,
    values_in,
    walked,
)

_DEVIATIONS = frozenset("std stds sigma sigmas stddev std_dev".split())
_NOISE = frozenset("noise eps epsilon".split())
_SAME = frozenset("view reshape gather to float double unsqueeze expand index_select take".split())
"""Methods whose result holds the numbers of their tensor."""


def uncumulated_noise(tree: ast.Module) -> Iterator[ast.expr]:
    """The sums as ``alphas[t].sqrt() * x0 + (1 - alphas[t]).sqrt() * noise``.

    Of what the same file multiplies up, ``torch.cumprod(alphas, 0)``: what a sample is noised by
    at once is a product of it. A sum that takes the place of the sample itself is a single step.
    """
    multiplied = {ast.unparse(of) for call in walked(tree) if (of := _multiplied(call))}
    for scope in scopes_of(tree) if multiplied else ():
        values = _set_once_in(scope)
        own = {id(x.value): ast.unparse(x.targets[0]) for x in _sets_in(scope)}
        for node in inner(scope):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                found = _noised(node, values)
                if found is not None and found[0] in multiplied and own.get(id(node)) != found[1]:
                    yield node


def uniform_noise(tree: ast.Module) -> Iterator[ast.expr]:
    """The draws between 0 and 1 that a deviation multiplies, as of noise with a mean of 0.

    As ``noise = torch.rand_like(x)`` of ``(1 - a).sqrt() * noise``, and ``mu + std * eps``; others
    than of ``rand_like`` where they have the shape of something, or are named noise.
    """
    for scope in scopes_of(tree):
        draws = {
            name: node.value
            for node in _sets_in(scope)
            if _is_uniform(node.value, name := ast.unparse(node.targets[0]))
        }
        found: dict[int, ast.expr] = {}
        for node in inner(scope):
            factors = factors_of(node)[1] if isinstance(node, ast.BinOp) else []
            if any(map(_is_deviation, factors)):
                own = (draws.get(ast.unparse(x), x) for x in factors)
                found |= {id(x): x for x in own if x in draws.values() or _is_uniform(x)}
        yield from found.values()
        if draws and not found:
            yield from _handed_on(tree, scope, draws)


def _handed_on(tree: ast.Module, scope: Scope, draws: Mapping[str, ast.expr]) -> Iterator[ast.expr]:
    """The draws that a function of the same file is given, and multiplies so under its own name."""
    functions = {x.name: x for x in walked(tree) if isinstance(x, FUNCTIONS)}
    for call in calls_in(scope):
        function = functions.get(ast.unparse(call.func))
        names = [] if function is None else [one.arg for one in function.args.args]
        for name, given in zip(names, call.args, strict=False):
            draw = draws.get(ast.unparse(given))
            if draw is not None and function is not None and _is_scaled(function, name):
                yield draw


def _is_scaled(function: Function, name: str) -> bool:
    products = (x for x in inner(function) if isinstance(x, ast.BinOp))
    every = (factors_of(product)[1] for product in products)
    return any(
        any(map(_is_deviation, factors)) and name in map(ast.unparse, factors) for factors in every
    )


def _is_uniform(value: ast.expr, name: str = "") -> bool:
    if not isinstance(value, ast.Call):
        return False
    if called(value) == "uniform_":
        return not (value.args or value.keywords) and "empty_like(" in ast.unparse(value.func)
    if called(value) != "rand":
        return called(value) == "rand_like"
    shapes = " ".join(map(ast.unparse, value.args))
    return ".shape" in shapes or ".size(" in shapes or name.rpartition(".")[2] in _NOISE


def _is_deviation(value: ast.expr) -> bool:
    """True for a square root, the exponential of half of something, and what is named so."""
    if _root_of(value) is not None:
        return True
    name = ast.unparse(value).lower().rpartition(".")[2]
    is_exponential = isinstance(value, ast.Call) and called(value) == "exp"
    return (is_exponential and "0.5" in ast.unparse(value)) or name in _DEVIATIONS


def products_of_betas(tree: ast.Module) -> Iterator[ast.expr]:
    """The products ``cumprod(betas)`` in files that know of ``1 - betas``, which is to be taken."""
    rests = {
        ast.unparse(node.right)
        for node in walked(tree)
        if isinstance(node, ast.BinOp) and ast.unparse(node).startswith(("1 - ", "1.0 - "))
    }
    for call in (x for x in walked(tree) if isinstance(x, ast.Call)):
        of = _multiplied(call)
        name = "" if of is None else ast.unparse(of)
        if name in rests and "beta" in name.lower():
            yield call


def _multiplied(node: ast.AST) -> ast.expr | None:
    """The thing whose numbers a call of ``cumprod`` multiplies up; None of others."""
    call = method_of(node)
    return call.of if call is not None and call.name == "cumprod" else None


def _noised(value: ast.BinOp, values: Mapping[str, ast.expr]) -> tuple[str, str] | None:
    """The share and the sample of what is noised; None of any other sum."""
    terms = [factors_of(term)[1] for sign, term in signed_terms_of(value) if sign > 0]
    if len(terms) != 2:
        return None
    roots = [[(root, x) for x in term if (root := _root_of(x)) is not None] for term in terms]
    for i, j in ((0, 1), (1, 0)):
        for share, whole in roots[i]:
            for rest, _ in roots[j]:
                if _is_rest(rest, share):
                    others = [x for x in terms[i] if x is not whole]
                    sample = ast.unparse(others[0]) if len(others) == 1 else ""
                    return _home(share, values), sample
    return None


def _root_of(value: ast.expr) -> ast.expr | None:
    """The thing that a square root is of, as it is written; None of what is none."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Pow):
        is_half = isinstance(value.right, ast.Constant) and value.right.value == 0.5
        return value.left if is_half else None
    call = method_of(value)
    return call.of if call is not None and call.name == "sqrt" else None


def _is_rest(value: ast.expr, share: ast.expr) -> bool:
    """True for 1 less a share."""
    is_less = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)
    return is_less and ast.unparse(value).replace(" ", "") in (
        f"{one}-{ast.unparse(share).replace(' ', '')}" for one in ("1", "1.0")
    )


def _home(value: ast.expr, values: Mapping[str, ast.expr]) -> str:
    """The tensor whose entries something is, as ``"alphas"`` of ``alphas[t][:, None]``."""
    for _ in range(8):
        if isinstance(value, ast.Name) and value.id in values:
            value = values[value.id]
        elif isinstance(value, ast.Subscript):
            value = value.value
        elif (call := method_of(value)) is not None and call.name in _SAME:
            value = call.of
        else:
            break
    return ast.unparse(value)


def _sets_in(scope: Scope) -> list[ast.Assign]:
    return [x for x in statements_in(scope) if isinstance(x, ast.Assign)]


def _set_once_in(scope: Scope) -> dict[str, ast.expr]:
    """The values of names that a scope sets once, to entries of something."""
    return {
        name: of[0]
        for name, of in values_in(statements_in(scope)).items()
        if len(of) == 1 and isinstance(of[0], (ast.Subscript, ast.Call))
    }
