"""Noise that a loss is to find again, in samples that were made without it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    Function,
    called,
    inner,
    scopes_of,
    statements_in,
    values_in,
    walked,
)

_NOISE = re.compile(r"(\w+_)?(noises?|eps|epsilons?)(_\w+)?")
_DRAWS = frozenset({"randn", "randn_like"})
_LOSS = re.compile(r"loss|criterion|crit|mse|mae|huber|l1")
_SIZES = frozenset({"square", "pow", "abs", "norm"})


def foreign_noise(tree: ast.Module) -> Iterator[ast.expr]:
    """The draws of noise that a loss compares something with, and nothing else is made of.

    As ``noise = torch.randn_like(x)`` and ``loss = mse(model(noised(x, t), t), noise)``, where
    ``noised`` draws another for itself.
    """
    for scope in scopes_of(tree):
        for name, values in values_in(statements_in(scope)).items():
            if _NOISE.fullmatch(name.lower()) and len(values) == 1 and _is_drawn(values[0]):
                reads = [*_reads_of(name, scope)]
                compared = {id(x) for node in inner(scope) for x in _compared_in(node)}
                if reads and all(id(x) in compared for x in reads):
                    yield values[0]


def _is_drawn(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and called(value) in _DRAWS


def _reads_of(name: str, code: ast.AST) -> Iterator[ast.Name]:
    """The reads of a variable in some code, and in the functions in it that have none so named."""
    for child in ast.iter_child_nodes(code):
        if isinstance(child, ast.Name) and child.id == name and isinstance(child.ctx, ast.Load):
            yield child
        if not isinstance(child, (*FUNCTIONS, ast.Lambda)) or not _binds(child, name):
            yield from _reads_of(name, child)


def _binds(function: Function | ast.Lambda, name: str) -> bool:
    """True for an argument of a function, and for what it sets."""
    return any(
        (isinstance(x, ast.arg) and x.arg == name)
        or (isinstance(x, ast.Name) and x.id == name and isinstance(x.ctx, ast.Store))
        for x in walked(function)
    )


def _compared_in(node: ast.AST) -> Iterator[ast.expr]:
    """The two sides of a loss, and of a difference whose size is taken."""
    if isinstance(node, ast.Call) and _LOSS.search(called(node).lower()):
        sides = [*node.args, *(x.value for x in node.keywords if x.arg in ("input", "target"))]
        yield from sides if len(sides) == 2 else ()
    elif (of := _sized_in(node)) is not None:
        yield from (of.left, of.right)


def _sized_in(node: ast.AST) -> ast.BinOp | None:
    """The difference whose square, power, norm or absolute size something is; None of others."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        of: ast.AST | None = node.left
    elif isinstance(node, ast.Call) and called(node) in _SIZES:
        own = node.func.value if isinstance(node.func, ast.Attribute) else None
        of = next(iter(node.args), None) if own is None or isinstance(own, ast.Name) else own
    else:
        return None
    return of if isinstance(of, ast.BinOp) and isinstance(of.op, ast.Sub) else None
