"""Sums and lists of losses that keep the graph of each, so that memory grows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import (
    Scope,
    called,
    inner,
    loops_in,
    minimized_in,
    names_in,
    scopes_of,
    walked,
)


def kept_graphs(tree: ast.Module) -> Iterator[ast.expr]:
    """The losses that a loop adds to a sum, or a list, after their backward, as they are.

    As ``running_loss += loss`` in the place of ``running_loss += loss.item()``: the sum has the
    graphs of all of them. Not where the loss is detached before, or the sum is minimized itself.
    """
    for scope in scopes_of(tree):
        for loop in loops_in(scope):
            minimized = {ast.unparse(of) for of in minimized_in(loop)}
            losses = minimized & names_in(loop) - _made_plain(loop)
            for node in inner(loop):
                kept = _kept(node)
                if kept is None or not isinstance(kept[1], ast.Name):
                    continue
                target, value = kept[0], kept[1]
                if value.id in losses and target not in minimized and _begins(scope, loop, target):
                    yield value


def _kept(node: ast.AST) -> tuple[str, ast.expr] | None:
    """A sum, or a list, and what is added to it."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return ast.unparse(node.target), node.value
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
        name, total = ast.unparse(node.targets[0]), node.value
        is_sum = isinstance(total.op, ast.Add) and ast.unparse(total.left) == name
        return (name, total.right) if is_sum else None
    if isinstance(node, ast.Call) and called(node) == "append" and len(node.args) == 1:
        is_method = isinstance(node.func, ast.Attribute)
        of = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        return (of, node.args[0]) if is_method else None
    return None


def _made_plain(loop: ast.AST) -> set[str]:
    """The names that a loop sets to a number, or to what has no graph, somewhere."""
    sets = (x for x in walked(loop) if isinstance(x, ast.Assign))
    return {
        name
        for node in sets
        if isinstance(node.value, ast.Call) and called(node.value) in ("item", "detach", "float")
        for name in names_in(node, ast.Store)
    }


def _begins(scope: Scope, loop: ast.AST, name: str) -> bool:
    """True for a name that is set to 0, or to an empty list, outside of a loop."""
    within = {id(x) for x in walked(loop)}
    for node in inner(scope):
        if isinstance(node, ast.Assign) and id(node) not in within:
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if name in [ast.unparse(x) for t in node.targets for x in _parts(t)]:
                return any(ast.unparse(value) in ("0", "0.0", "[]", "list()") for value in values)
    return False


def _parts(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]
