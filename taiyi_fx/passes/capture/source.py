"""Functions as syntax trees, if their source compiles to the code that runs."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import linecache
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

import torch

from taiyi_fx.passes.capture.values import Refused

_TORCH = str(Path(torch.__file__).parent) + os.sep
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


_BODIES: dict[CodeType, list[ast.stmt]] = {}


def body_of(function: FunctionType) -> list[ast.stmt]:
    """The statements of a function.

    Raises:
        Refused: No source compiles to the code that runs, or it is not a plain function.
    """
    code = function.__code__
    if code not in _BODIES:
        if code.co_flags & _SUSPENDS:
            raise Refused("uses `yield` or `await`")
        _BODIES[code] = _found(function)
    return _BODIES[code]


def _found(function: FunctionType) -> list[ast.stmt]:
    for node in _candidates(function.__code__):
        if _compiles_to(node, function):
            if isinstance(node, ast.Lambda):
                return [ast.copy_location(ast.Return(node.body), node.body)]
            return node.body
    raise Refused("has no source to check")


def _candidates(code: CodeType) -> Iterator[ast.FunctionDef | ast.Lambda]:
    lines = linecache.getlines(code.co_filename)
    first = code.co_firstlineno - 1
    if not 0 <= first < len(lines):
        return
    if code.co_name == "<lambda>":
        tree = _whole_file(code.co_filename)
        yield from (
            n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == first + 1
        )
        return
    block = "".join(inspect.getblock(lines[first:]))
    try:
        # Not dedented: that would change strings of several lines.
        is_inside = block[0] in " \t"
        (node,) = ast.parse(f"if 1:\n{block}" if is_inside else block).body
    except (SyntaxError, ValueError, IndentationError):
        return
    if isinstance(node, ast.If):
        (node,) = node.body
    if isinstance(node, ast.FunctionDef):
        yield ast.increment_lineno(node, first - is_inside)


@functools.lru_cache(maxsize=8)
def _whole_file(filename: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:  # a block of a string
        return ast.Module([], [])


def _compiles_to(node: ast.FunctionDef | ast.Lambda, function: FunctionType) -> bool:
    """True if the source is that of the code: a file may have changed since it was imported."""
    code, scope = function.__code__, function.__globals__
    used = [name for name in code.co_names if name in scope]
    modules = [name for name in used if isinstance(scope[name], ModuleType)]
    # Python compiles a call of an imported name differently.
    return any(_compiles(node, code, imported) for imported in (modules, used, ()))


def _compiles(
    node: ast.FunctionDef | ast.Lambda, code: CodeType, imported: Collection[str]
) -> bool:
    # An outer function makes its free variables what they are.
    imports = "".join(f"import {name}\n" for name in imported)
    try:
        module = ast.parse(f"{imports}def outer({', '.join(code.co_freevars)}): pass")
        cast(ast.FunctionDef, module.body[-1]).body = [_nameless(node)]
        made = compile(module, code.co_filename, "exec", dont_inherit=True)
    except SyntaxError:  # such names exist in compiled code only, so this is not its source
        return False
    (compiled,) = _codes_in(made)
    return any(_are_alike(found, code) for found in _codes_in(compiled))


def _nameless(node: ast.FunctionDef | ast.Lambda) -> ast.stmt:
    """The definition in a scope of its own, where its name is not a variable that it may read."""
    if isinstance(node, ast.Lambda):
        return ast.copy_location(ast.Expr(node), node)
    made: Any = copy.copy(node)
    made.name, made.type_params = "own name of none", []
    return made


def _codes_in(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _are_alike(a: CodeType, b: CodeType) -> bool:
    return (
        a.co_code == b.co_code
        and a.co_names == b.co_names
        and a.co_varnames == b.co_varnames
        and a.co_freevars == b.co_freevars
        and _constants(a) == _constants(b)
    )


def _constants(code: CodeType) -> list[object]:
    return [
        _constants(c) if isinstance(c, CodeType) else (type(c), repr(c)) for c in code.co_consts
    ]


@functools.cache
def is_torchs_file(filename: str) -> bool:
    """True if a file is torch's own."""
    return filename.startswith(_TORCH)
