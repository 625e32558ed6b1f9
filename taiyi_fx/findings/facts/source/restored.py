"""Averages of weights that are put into a model for an evaluation, and never taken out again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    LOOPS,
    Function,
    called,
    given_in,
    walked,
    whose,
)

_LOADS = ("copy_", "load_state_dict", "set_", "swap_tensors")
_OF_LIBRARIES = {"apply_shadow": "restore", "copy_to": "restore"}
"""The methods of well-known averages that put them into a model, and those that take them out."""
_AVERAGES = re.compile(r"(^|[._])(ema|avg|averaged?|shadow)(_|$)")


def never_restored(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls by which an average's weights are put into a model that goes on training.

    A method keeps the model's own weights, and another one puts them back, which nothing calls.
    """
    pairs = _pairs_in(tree)
    calls = [x for x in walked(tree) if isinstance(x, ast.Call)]
    names = {called(call) for call in calls}
    functions = {x.name: x for x in walked(tree) if isinstance(x, FUNCTIONS)}
    for loop in (x for x in walked(tree) if isinstance(x, LOOPS)):
        within = [*_calls_from(loop, functions)]
        if not any(called(call) in ("backward", "manual_backward") for call in within):
            continue
        for call in within:
            back = pairs.get(called(call)) or _of_library(call)
            if back and back not in names:
                yield call


def _of_library(call: ast.Call) -> str:
    """The method that undoes what one of a well-known average does; empty of any other."""
    is_average = _AVERAGES.search(whose(call).lower()) is not None
    return _OF_LIBRARIES.get(called(call), "") if is_average else ""


def _pairs_in(tree: ast.Module) -> dict[str, str]:
    """The methods that keep a model's weights and load others, each with that which undoes it."""
    found: dict[str, str] = {}
    for kind in (x for x in walked(tree) if isinstance(x, ast.ClassDef)):
        methods = [x for x in kind.body if isinstance(x, FUNCTIONS) and _loads_weights(x)]
        for one in methods:
            kept = _kept_by(one)
            others = (x for x in methods if x is not one and kept & _loaded_by(x))
            back = next(others, None)
            if back is not None and not kept & _loaded_by(one):
                found[one.name] = back.name
    return found


def _loads_weights(method: Function) -> bool:
    return bool(_loaded_by(method)) and method.name != "__init__"


def _loaded_by(method: Function) -> set[str]:
    """The attributes of its own whose numbers a method loads into weights, as ``self.shadow``."""
    found: set[str] = set()
    items = _items_in(method)
    for call in (x for x in walked(method) if isinstance(x, ast.Call) and called(x) in _LOADS):
        found |= {name for given in call.args for name in _attributes_in(given, items)}
    for name, value, _ in given_in(walked(method)):
        if name.endswith(".data"):
            found |= _attributes_in(value, items)
    return found


def _kept_by(method: Function) -> set[str]:
    """The attributes to which a method gives something, entries likewise."""
    names = (name for name, value, _ in given_in(walked(method)) if not _is_empty(value))
    return {name.partition("[")[0] for name in names if name.startswith("self.")}


def _items_in(method: Function) -> dict[str, set[str]]:
    """The attributes whose items a loop goes through, by the name of an item."""
    found: dict[str, set[str]] = {}
    for loop in (x for x in walked(method) if isinstance(x, ast.For)):
        for name in (x for x in walked(loop.target) if isinstance(x, ast.Name)):
            found.setdefault(name.id, set()).update(_attributes_in(loop.iter, {}))
    return found


def _attributes_in(value: ast.expr, items: Mapping[str, set[str]]) -> set[str]:
    every = [*walked(value)]
    own = {ast.unparse(x) for x in every if isinstance(x, ast.Attribute)}
    found = {name for name in own if name.startswith("self.") and name.count(".") == 1}
    return found.union(*(items.get(x.id, set()) for x in every if isinstance(x, ast.Name)))


def _is_empty(value: ast.expr) -> bool:
    """True for ``None`` and for an empty container, by which what was kept is let go."""
    is_none = isinstance(value, ast.Constant) and value.value is None
    return is_none or ast.unparse(value) in ("{}", "[]", "dict()", "list()")


def _calls_from(loop: ast.AST, functions: Mapping[str, Function]) -> Iterator[ast.Call]:
    """The calls in a loop, and in the file's functions that these call."""
    waiting, seen = [loop], set[str]()
    while waiting:
        for call in (x for x in walked(waiting.pop()) if isinstance(x, ast.Call)):
            yield call
            name = called(call)
            if name in functions and name not in seen:
                seen.add(name)
                waiting.append(functions[name])
