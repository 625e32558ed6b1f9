"""Calls in the source of a module's class that do not what they seem to: their result is thrown
away, or they drop out in evaluation, too.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

_RETURNING = frozenset(
    "sub mul div masked_fill masked_scatter clamp clip relu sigmoid tanh softmax log_softmax "
    "scatter_add index_add index_fill index_copy permute unsqueeze contiguous reshape".split()
)
"""Methods of tensors that return another one, and that little else has."""
_FUNCTIONS = frozenset("relu gelu dropout softmax log_softmax normalize layer_norm pad".split())
"""Functions of ``torch.nn.functional`` and torch that do so."""
_OF_SETS = frozenset({"add"})
"""Methods that sets have, too: of tensors if they are given one of the module's own."""
_DROPOUTS = frozenset(
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout".split()
)
_HOMES = frozenset({"F", "torch", "functional"})
"""Names by which ``torch.nn.functional`` and torch are called."""


class Slip(NamedTuple):
    """A call that does not what it seems to.

    Attributes:
        call: Its text, such as ``"x.masked_fill(mask, 0)"``.
        place: The file and the line, such as ``"model.py:31"``.
        is_dropout: True for a dropout that is not told whether the model trains; false where what
            a function returns is thrown away.
    """

    call: str
    place: str
    is_dropout: bool


def slips_of(modules: Mapping[str, Any]) -> dict[str, tuple[Slip, ...]]:
    """The slips in the class of each module that has any, under the first name of each class.

    The source is read, and no code is run.

    Args:
        modules: The modules by name. A run is read without torch, hence `Any`.
    """
    first = {type(module): name for name, module in reversed([*modules.items()])}
    found = {name: _of_class(kind, _tensors_of(modules[name])) for kind, name in first.items()}
    return {name: found[name] for name in modules if found.get(name)}


def _tensors_of(module: Any) -> frozenset[str]:
    """The names of what a module holds that is a tensor or returns one."""
    return frozenset().union(module._parameters, module._buffers, module._modules)


@functools.lru_cache(maxsize=1024)
def _of_class(kind: type, tensors: frozenset[str]) -> tuple[Slip, ...]:
    if kind.__module__.partition(".")[0] == "torch":
        return ()
    own = [made for made in vars(kind).values() if isinstance(made, types.FunctionType)]
    return tuple(slip for function in own for slip in _of_function(function, tensors))


def _of_function(function: types.FunctionType, tensors: frozenset[str]) -> Iterator[Slip]:
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError, IndentationError):
        return  # typed in by hand, or made by code: there is no source to read
    file = function.__code__.co_filename.replace("\\", "/").rpartition("/")[2]
    asked = {id(inner) for node in ast.walk(tree) if _asks(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            is_slip = _always_drops(node) and id(node) not in asked
        elif isinstance(node, ast.Expr):
            is_slip = _is_thrown_away(node.value, tensors)
        else:
            continue
        if is_slip:
            place = f"{file}:{first + node.lineno - 1}"
            yield Slip(ast.unparse(node), place, isinstance(node, ast.Call))


def _asks(node: ast.AST) -> bool:
    """True for a branch that is taken in training alone, or in evaluation."""
    if not isinstance(node, (ast.If, ast.IfExp)):
        return False
    return any(isinstance(n, ast.Attribute) and n.attr == "training" for n in ast.walk(node.test))


def _always_drops(call: ast.Call) -> bool:
    """True for a dropout of ``torch.nn.functional`` that is not told whether the model trains."""
    keywords = {keyword.arg for keyword in call.keywords}
    is_told = "training" in keywords or None in keywords or len(call.args) > 2
    is_unpacked = any(isinstance(argument, ast.Starred) for argument in call.args)
    return _function(call) in _DROPOUTS and not (is_told or is_unpacked)


def _is_thrown_away(value: ast.expr, tensors: Collection[str]) -> bool:
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    keywords = {keyword.arg for keyword in value.keywords}
    if keywords & {"out", "inplace", None}:
        return False
    name = _function(value)
    if name or value.func.attr not in _OF_SETS:
        return name in _FUNCTIONS or (not name and value.func.attr in _RETURNING)
    given = [node for argument in value.args for node in ast.walk(argument)]
    return any(isinstance(node, ast.Attribute) and node.attr in tensors for node in given)


def _function(call: ast.Call) -> str:
    """The name of a function of torch that is called as ``F.name(...)``; else empty."""
    own = call.func
    if not isinstance(own, ast.Attribute):
        return ""
    home = own.value.attr if isinstance(own.value, ast.Attribute) else getattr(own.value, "id", "")
    return own.attr if home in _HOMES else ""
