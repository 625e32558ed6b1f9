"""Weights that code keeps beside a model: states that are no copies, targets that never follow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import (
    called,
    given_in,
    has_backward,
    made_by,
    scopes_of,
    values_in,
    walked,
    whose,
)

_TARGET = re.compile(r"(^|[._])(tgt|target)s?(_|$)")
_GIVES = frozenset("load_state_dict parameters named_parameters state_dict buffers modules".split())
"""Methods by which weights are reached, to be brought up to date."""


def live_states(tree: ast.Module) -> Iterator[ast.expr]:
    """The states that are kept to be loaded again later, and are the model's own tensors.

    As ``best = model.state_dict()`` in a loop and ``model.load_state_dict(best)`` behind it.
    """
    loads = {
        ast.unparse(call.args[0]): call
        for call in _calls(tree)
        if called(call) == "load_state_dict" and call.args
    }
    for name, kept in made_by(("state_dict",), walked(tree)):
        load = loads.get(name)
        if load is None or whose(kept) != whose(load) or kept.lineno >= load.lineno:
            continue
        lines = range(kept.lineno, load.lineno)
        is_other = _is_looked_into(tree, name) or _sets(tree, whose(load), lines)
        if not is_other and _is_loaded_behind(tree, kept, load):
            yield kept
    yield from _live_attributes(tree)


def _live_attributes(tree: ast.Module) -> Iterator[ast.expr]:
    """Those that a method keeps in an attribute, by which they are loaded elsewhere.

    As ``self.best = model.state_dict()`` of an early stop and ``model.load_state_dict(stop.best)``.
    """
    loads = [
        call.args[0] for call in _calls(tree) if called(call) == "load_state_dict" and call.args
    ]
    loaded = {x.attr for x in loads if isinstance(x, ast.Attribute)}
    nodes = [x for x in walked(tree) if isinstance(x, (ast.Subscript, ast.Attribute))]
    inside = {x.value.attr for x in nodes if isinstance(x.value, ast.Attribute)}
    for name, values in values_in(walked(tree)).items():
        held, _, attribute = name.partition(".")
        kept = [x for x in values if isinstance(x, ast.Call) and called(x) == "state_dict"]
        others = [x for x in values if not isinstance(x, ast.Constant) and x not in kept]
        if held == "self" and attribute in loaded - inside and not others:
            yield from kept


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (x for x in walked(tree) if isinstance(x, ast.Call))


def _is_looked_into(tree: ast.Module, name: str) -> bool:
    """True for a state of which code takes, changes or hands on an entry, as in partial loading."""
    for x in walked(tree):
        whole = x.value if isinstance(x, (ast.Subscript, ast.Attribute)) else None
        over = x.iter if isinstance(x, (ast.For, ast.comprehension)) else None
        if any(one is not None and ast.unparse(one) == name for one in (whole, over)):
            return True
    return False


def _sets(tree: ast.Module, name: str, lines: range) -> bool:
    """True if a variable is given another value in some lines."""
    return any(x.name == name and x.line in lines for x in given_in(walked(tree)))


def _is_loaded_behind(tree: ast.Module, node: ast.Call, load: ast.Call) -> bool:
    """True if a state is kept in a loop, and loaded behind its turns."""
    loops = (x for x in walked(tree) if isinstance(x, (ast.For, ast.While)))
    around = [x for x in loops if any(y is node for y in walked(x))]
    return bool(around) and not any(y is load for y in walked(around[-1]))


def lagging_targets(tree: ast.Module) -> Iterator[ast.expr]:
    """The copies of a model that are named a target, and whose weights nothing brings up to date.

    All that the file does with them has to be seen: a function that is given one may do it.
    """
    if not any(map(has_backward, scopes_of(tree))):
        return
    values = values_in(walked(tree))
    for name, copy in made_by(("deepcopy",), walked(tree)):
        is_target = _TARGET.search(name.lower()) and len(values[name]) == 1
        if is_target and _is_used_alone(tree, name):
            yield copy


def _is_used_alone(tree: ast.Module, name: str) -> bool:
    """True if all that is done with a module is to call it, and what else changes no weight."""
    parents = {id(child): x for x in walked(tree) for child in ast.iter_child_nodes(x)}
    every = [x for x in walked(tree) if isinstance(x, (ast.Name, ast.Attribute))]
    uses = [x for x in every if ast.unparse(x) == name and isinstance(x.ctx, ast.Load)]
    is_called = False
    for use in uses:
        parent = parents.get(id(use))
        if isinstance(parent, ast.Call) and parent.func is use:
            is_called = True
        elif not isinstance(parent, ast.Attribute) or not _is_harmless(parent, parents):
            return False
    return is_called


def _is_harmless(attribute: ast.Attribute, parents: dict[int, ast.AST]) -> bool:
    call = parents.get(id(attribute))
    if not isinstance(call, ast.Call) or call.func is not attribute:
        return False
    if attribute.attr not in _GIVES:
        return True
    loop = parents.get(id(call))
    if not isinstance(loop, ast.For) or loop.iter is not call:
        return False
    return "requires_grad" in ast.unparse(loop)
