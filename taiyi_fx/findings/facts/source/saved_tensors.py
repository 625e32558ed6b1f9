"""Tensors that a function of autograd saves for its backward, which takes them for others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    Function,
    called,
    calls_in,
    given_in,
    walked,
)


def mistaken_tensors(tree: ast.Module) -> Iterator[ast.expr]:
    """The tensors that a forward saves, and whose backward calls them as it calls others.

    As ``ctx.save_for_backward(x)`` of a forward with ``y = torch.tanh(x)``, and ``(y,) =
    ctx.saved_tensors``. Not of a name that is part of the other, as ``index`` of ``flat_index``.
    """
    for one in (x for x in walked(tree) if isinstance(x, ast.ClassDef)):
        methods = {x.name: x for x in one.body if isinstance(x, FUNCTIONS)}
        forward, backward = methods.get("forward"), methods.get("backward")
        if forward is not None and backward is not None:
            known = _names_in(forward)
            for saved, taken in zip(_saved_in(forward), _taken_in(backward), strict=False):
                if isinstance(saved, ast.Name) and taken in known and not _is_part(saved.id, taken):
                    yield saved


def _is_part(one: str, other: str) -> bool:
    return one in other or other in one


def _names_in(function: Function) -> set[str]:
    arguments = (x.arg for x in function.args.args)
    return {*arguments, *(one.name for one in given_in(walked(function)))}


def _saved_in(forward: Function) -> list[ast.expr]:
    """The tensors that it saves, in order; none of several calls, as of branches."""
    calls = [x for x in calls_in(forward) if called(x) == "save_for_backward"]
    return calls[0].args if len(calls) == 1 else []


def _taken_in(backward: Function) -> list[str]:
    """The names that it gives to what was saved, in order."""
    for node in walked(backward):
        if isinstance(node, ast.Assign) and ast.unparse(node.value).endswith(".saved_tensors"):
            (target,) = node.targets[-1:]
            return [*map(ast.unparse, target.elts)] if isinstance(target, ast.Tuple) else []
    return []
