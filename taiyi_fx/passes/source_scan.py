"""Reads a function's source for Python that a symbolic trace would lose."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Mapping
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

import torch
from torch import fx, nn

from taiyi_fx.passes.conditions import MISSING, SIMPLE, Condition, Conditions
from taiyi_fx.passes.syntax import (
    Function,
    Refusal,
    Unbound,
    chain_of,
    definitions,
    first_line,
    is_super,
    rebound,
)

_TYPE_TESTS = frozenset(
    "isinstance issubclass type hasattr getattr setattr delattr callable id vars dir".split()
)


def scan(
    frame: FrameType,
    names: Mapping[nn.Module, str],
    inlined: Collection[str],
    conditions: Conditions,
) -> None:
    """Checks the function of a frame that returned.

    Args:
        frame: The frame, with the values that its names have now.
        names: The names of the model's modules.
        inlined: Names of those whose forwards are in the graph; the others are called as they are.
        conditions: Takes the plain values that the function reads.

    Raises:
        Refusal: The function does what would be lost.
    """
    for function in definitions(frame.f_code):
        _Scan(frame, names, inlined, conditions).check(function)


class _Scan:
    """Checks one function, by its source, with the values that its names had when it returned."""

    def __init__(
        self,
        frame: FrameType,
        names: Mapping[nn.Module, str],
        inlined: Collection[str],
        conditions: Conditions,
    ) -> None:
        self.inlined = inlined
        self.rebound: frozenset[str] = frozenset()
        self.locals = frame.f_locals
        self.globals = frame.f_globals
        self.first = frame.f_code.co_varnames[0] if frame.f_code.co_argcount else None
        self.free = frame.f_code.co_freevars
        self.names = names
        self.conditions = conditions

    def check(self, function: Function) -> None:
        for name in self.free:
            if name != "__class__" and not isinstance(self.locals.get(name), FunctionType):
                raise Refusal(f"closes over the variable {name!r}", first_line(function))
        defaults = (*function.args.defaults, *filter(None, function.args.kw_defaults))
        if any(isinstance(default, _MUTABLE) for default in defaults):
            raise Refusal("has a default that it may change", first_line(function))
        body = [function.body] if isinstance(function, ast.Lambda) else function.body
        self.rebound = rebound(body)
        for statement in body:
            for node in ast.walk(statement):
                problem = self._problem(node)
                if problem:
                    raise Refusal(problem, getattr(node, "lineno", 0))

    def _problem(self, node: ast.AST) -> str | None:
        match node:
            case ast.With() | ast.AsyncWith():
                return f"uses `with {ast.unparse(node.items[0])}`"
            case ast.Try() | ast.Match() | ast.Yield() | ast.YieldFrom() | ast.Await():
                return f"uses `{type(node).__name__.lower()}`"
            case ast.Global() | ast.Nonlocal():
                return f"changes the outer variable {node.names[0]!r}"
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                return f"changes `{ast.unparse(node)}`"
            case ast.Compare():
                return self._identity_test(node)
            case ast.Call():
                return self._call(node)
            case ast.Attribute(ctx=ast.Load()):
                return self._attribute(node)
            case ast.Name(ctx=ast.Load()):
                return self._global(node)
        return None

    def _identity_test(self, node: ast.Compare) -> str | None:
        operands = [node.left, *node.comparators]
        for i, operator in enumerate(node.ops):
            if isinstance(operator, (ast.Is, ast.IsNot)) and not all(
                isinstance(operand, ast.Constant) or self._belongs_to_module(operand)
                for operand in operands[i : i + 2]
            ):
                return f"tests the identity of a value, `{ast.unparse(node)}`"
        return None

    def _call(self, node: ast.Call) -> str | None:
        match node.func:
            case ast.Name(id="print" | "input" | "open" | "exec" | "eval" as name):
                return f"calls `{name}`"
            case ast.Name(id=name) if name in _TYPE_TESTS:
                return f"tests the type of a value, `{ast.unparse(node)}`"
            case ast.Attribute(attr="forward", value=value) if not is_super(value):
                return f"calls `{ast.unparse(node.func)}` directly"
        return None

    def _belongs_to_module(self, node: ast.expr) -> bool:
        """Whether this is what a module holds by a name, which the conditions look after."""
        if not isinstance(node, ast.Attribute):
            return isinstance(node, ast.Name) and node.id == self.first
        chain, base, indexed = chain_of(node)
        if indexed or not (isinstance(base, ast.Name) and base.id == self.first):
            return False
        owner = self.locals.get(base.id)
        for attr in reversed(chain[1:]):
            owner = owner._modules.get(attr) if isinstance(owner, nn.Module) else None
        return isinstance(owner, nn.Module)

    def _attribute(self, node: ast.Attribute) -> str | None:
        """Follows ``self.a.b`` through modules; notes or refuses the plain value it ends at."""
        if node.attr.startswith("__"):
            return f"reads `{ast.unparse(node)}`"
        chain, base, indexed = chain_of(node)
        if not isinstance(base, ast.Name):
            return self._of_expression(node, chain, base)
        if base.id not in self.locals and base.id not in self.globals:
            # A comprehension's own variable, gone by now: it may have been anything.
            what = f"reads `{ast.unparse(node)}`, of a variable that cannot be checked"
            raise Unbound(what, node.lineno)
        owner = self.locals.get(base.id, self.globals.get(base.id))
        if isinstance(owner, (ModuleType, type)) and not indexed:
            return self._setting(owner, chain, node)
        if isinstance(owner, nn.Module):
            if indexed:
                return f"reads `{ast.unparse(node)}`, a part's attribute"
            if base.id in self.rebound:
                return f"reads `{ast.unparse(node)}`, of a variable that changes"
            return self._through_modules(owner, chain, node, is_self=base.id == self.first)
        if isinstance(owner, fx.Proxy) and base.id not in self.rebound:
            return None
        if _PLAIN_NAMES.issuperset(chain) and _is_plain_owner(owner):
            return None
        return f"reads `{ast.unparse(node)}`, an object's"

    def _of_expression(self, node: ast.Attribute, chain: list[str], base: ast.expr) -> str | None:
        """What an expression gives is taken for a tensor or a container only where it may be."""
        if is_super(base):
            found = getattr(type(self.locals.get(self.first or "")), chain[-1], None)
            return None if _is_method(found) else f"reads `{ast.unparse(node)}`"
        if _PLAIN_NAMES.issuperset(chain):
            return None
        return f"reads `{ast.unparse(node)}`, of a value that cannot be checked"

    def _through_modules(
        self, owner: Any, chain: list[str], node: ast.Attribute, *, is_self: bool
    ) -> str | None:
        for depth, attr in enumerate(reversed(chain)):
            problem = self._plain_value(owner, attr, stable=is_self and depth == 0)
            if problem:
                return f"{problem}, `{ast.unparse(node)}`"
            rest = chain[: len(chain) - depth - 1]
            owner = _stored(owner, attr)
            if not isinstance(owner, nn.Module):
                # Tensors are recorded as they are read, and what they answer with them.
                is_known = not rest or _PLAIN_NAMES.issuperset(rest)
                return None if is_known else f"reads `{ast.unparse(node)}`, an object's"
        return None

    def _setting(
        self, owner: ModuleType | type, chain: list[str], node: ast.Attribute
    ) -> str | None:
        """Notes a plain value that a Python module or a class holds; refuses others."""
        if _home(owner) in _LIBRARIES:
            return None
        if _home(owner) == "operator" and chain[-1] in _GETTERS:
            return f"reads by `{ast.unparse(node)}`"
        value: Any = owner
        for attr in reversed(chain):
            if not isinstance(value, (ModuleType, type)):
                return f"reads the setting `{ast.unparse(node)}`"
            holder, value = value, getattr(value, attr, MISSING)
            if value is MISSING or isinstance(value, (ModuleType, property)):
                continue
            if not _is_simple(value):
                kept = isinstance(value, (list, dict, set)) or not callable(value)
                return f"reads the setting `{ast.unparse(node)}`" if kept else None
            self._rely_on(holder, attr, value)
        return None

    def _rely_on(self, owner: Any, name: str, value: Any) -> None:
        condition = Condition(owner, name, value)
        self.conditions[condition.key] = condition

    def _plain_value(self, owner: nn.Module, attr: str, stable: bool) -> str | None:
        if attr in _MODULE_METHODS:
            return "calls a method that changes or reads the module's state"
        # What is called as it is may change what it holds while it runs.
        stable = stable and self.names.get(owner) in self.inlined
        if attr in owner._buffers and not stable:
            return "reads a buffer of a part, which the part may replace"
        if attr in _OWN or attr in owner._modules or attr in owner._parameters:
            return None
        value = vars(owner).get(attr, getattr(type(owner), attr, None))
        if isinstance(value, nn.Module) or attr in owner._buffers:
            return None
        is_kept = _is_method(value) or (stable and (_is_simple(value) or _is_tensor(value)))
        if not is_kept or owner not in self.names:
            return "reads an attribute whose value may change"
        self._rely_on(self.names[owner], attr, vars(owner).get(attr, MISSING))
        if attr not in vars(owner):
            self._rely_on(type(owner), attr, getattr(type(owner), attr, MISSING))
        return None

    def _global(self, node: ast.Name) -> str | None:
        if node.id in self.locals or node.id not in self.globals:
            return None
        value = self.globals[node.id]
        if isinstance(value, ModuleType):
            return None
        if getattr(value, "__name__", "") in _GETTERS:
            return f"reads by {node.id!r}"
        is_builtin = isinstance(value, BuiltinFunctionType) and (
            isinstance(value.__self__, ModuleType) or (value.__module__ or "").startswith("torch")
        )
        if _is_simple(value) or is_builtin or _home_of(value) in _LIBRARIES:
            self._rely_on(self.globals, node.id, value)
            return None
        return f"reads the global variable {node.id!r}"


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _home_of(value: Any) -> str:
    return (getattr(value, "__module__", None) or "").partition(".")[0] if callable(value) else ""


# What tensors, containers and texts answer: read of anything else, a name says that it is neither.
_PLAIN_NAMES = frozenset(
    name
    for kind in (torch.Tensor, torch.Size, list, dict, tuple, str, int, float)
    for name in dir(kind)
    if name[0] != "_"
)
_LIBRARIES = ("torch", "math", "numpy")
_OWN = frozenset(vars(nn.Module())) - {"training"}
_HARMLESS_METHODS = ("children", "named_children", "forward", "extra_repr")
_MODULE_METHODS = frozenset(
    name
    for name, value in vars(nn.Module).items()
    if isinstance(value, FunctionType) and name not in _HARMLESS_METHODS and name[0] != "_"
)


_GETTERS = ("attrgetter", "itemgetter", "methodcaller")
_MUTABLE = (ast.List, ast.Dict, ast.Set, ast.Call, ast.ListComp, ast.DictComp, ast.SetComp)


def _home(owner: ModuleType | type) -> str:
    name = owner.__module__ if isinstance(owner, type) else owner.__name__
    return name.partition(".")[0]


def _is_method(value: Any) -> bool:
    kinds = (FunctionType, property, classmethod, staticmethod, functools.cached_property)
    return isinstance(value, kinds) or type(value).__name__ == "builtin_function_or_method"


def _is_simple(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_simple(item) for item in value)
    return isinstance(value, (*SIMPLE, type, FunctionType))


def _is_plain_owner(owner: Any) -> bool:
    kinds = (fx.Proxy, str, int, float, list, tuple, dict)
    return owner is None or isinstance(owner, kinds)


def _stored(owner: nn.Module, attr: str) -> Any:
    for place in (vars(owner), owner._modules):
        if attr in place:
            return place[attr]
    return None
