"""Views of a tensor by its own sizes in another order, which mix the numbers of its axes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from taiyi_fx.findings.facts.source.syntax import Scope, calls_in, scopes_of, statements_in, walked


def torn_views(tree: ast.Module) -> Iterator[ast.Call]:
    """Calls as ``x.view(b, a, c)`` behind ``a, b, c = x.shape``, if x is the same still.

    And as ``x.view(x.size(0), n, x.size(1))``, by which an axis comes behind a new one.
    """
    for scope in scopes_of(tree):
        sets = [node for node in statements_in(scope) if isinstance(node, ast.Assign)]
        unpacked = [(node.lineno, *known) for node in sets if (known := _sizes_unpacked(node))]
        for view in filter(_is_view, calls_in(scope)):
            if _puts_an_axis_behind(view) or any(
                _is_torn(view, tensor, sizes) and not _assigns(scope, tensor, line, view.lineno)
                for line, tensor, sizes in unpacked
                if line < view.lineno
            ):
                yield view


def _is_torn(view: ast.Call, tensor: str, sizes: Sequence[str]) -> bool:
    """True for a view of a tensor by the same sizes in another order, of which no two are one."""
    of = view.func.value if isinstance(view.func, ast.Attribute) else view
    asked = _names(view.args)
    is_same = sorted(sizes) == sorted(asked) and len({*sizes}) == len(sizes) > 1
    return ast.unparse(of) == tensor and is_same and [*sizes] != asked and "_" not in sizes


def _puts_an_axis_behind(view: ast.Call) -> bool:
    """True for a view whose axes before some one are those of its tensor, and then has another.

    The size that comes behind it is of the axis which it should begin with.
    """
    of = ast.unparse(view.func.value) if isinstance(view.func, ast.Attribute) else ""
    asked = [ast.unparse(argument) for argument in view.args]
    kept = 0
    while kept < len(asked) and asked[kept] in (f"{of}.size({kept})", f"{of}.shape[{kept}]"):
        kept += 1
    later = {f"{of}.size({kept})", f"{of}.shape[{kept}]"} & {*asked[kept + 1 :]}
    return kept > 0 and bool(later) and not {*asked[kept : kept + 1]} & {"1", "-1"}


def _sizes_unpacked(node: ast.Assign) -> tuple[str, list[str]] | None:
    """The tensor and the names of ``a, b, c = x.shape`` or ``= x.size()``; None of others."""
    if not isinstance(node.targets[0], ast.Tuple):
        return None
    value = node.value
    if isinstance(value, ast.Call) and not value.args:
        value = value.func
    if not isinstance(value, ast.Attribute) or value.attr not in ("shape", "size"):
        return None
    names = _names(node.targets[0].elts)
    return (value.value.id, names) if isinstance(value.value, ast.Name) and names else None


def _is_view(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("view", "reshape")


def _names(nodes: Sequence[ast.expr]) -> list[str]:
    """The names of variables; none if anything else is among them."""
    if len(nodes) == 1 and isinstance(nodes[0], (ast.Tuple, ast.List)):
        nodes = nodes[0].elts
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    return names if len(names) == len(nodes) else []


def _assigns(scope: Scope, name: str, after: int, before: int) -> bool:
    """True if a variable is given another value in the lines between two."""
    return any(
        isinstance(node.ctx, ast.Store) and after < node.lineno < before
        for node in walked(scope)
        if isinstance(node, ast.Name) and node.id == name
    )
