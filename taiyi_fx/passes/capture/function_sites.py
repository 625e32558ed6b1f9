"""Finds, in the code of forwards that stayed Python, the functions that they seem to call."""

from __future__ import annotations

import dis
import functools
import operator
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

from torch import nn

from taiyi_fx.passes.capture.captured import Capture, site_of
from taiyi_fx.passes.capture.operators import SIGNS, Function
from taiyi_fx.passes.ir import FunctionGroup, members_of
from taiyi_fx.passes.module_tree import children_of, modules_of

_COMPARED = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_FORMS: dict[str, Function] = {
    **{f"a {sign} b": function for sign, (_, function, _) in SIGNS.items()},
    **{f"a {sign}= b": function for sign, (_, _, function) in SIGNS.items()},
    **{f"(a {sign} b, c if a {sign} b else d)": f for sign, f in _COMPARED.items()},
    "-a": operator.neg, "+a": operator.pos, "~a": operator.invert,
    "a[b]": operator.getitem, "a[b:c]": operator.getitem,
    "a[b] = c": operator.setitem, "a[b:c] = d": operator.setitem,
}  # fmt: skip
OPERATORS = frozenset(_FORMS.values())
"""The functions of `operator` that Python's syntax calls."""
_OPERATIONS = ("BINARY_", "INPLACE_", "COMPARE_", "UNARY_", "STORE_S", "CALL_INTRINSIC_1")
_PRODUCTS = ("matmul", "bmm", "baddbmm", "einsum")
_DEEPEST = 4


def add_sites_in_python(
    capture: Capture,
    modules: Mapping[str, nn.Module],
    targets: Collection[Function | FunctionGroup],
) -> None:
    """Adds a site for each function that a forward which stayed Python seems to call."""
    for name in capture.python if targets else ():
        code = _code_of(modules[name])
        for target in targets:
            if _is_called(target, modules[name], code):
                site = site_of(name, target, capture.functions)
                capture.functions[site] = target
                capture.sites.setdefault(name, []).append(site)


def unseen_in(module: nn.Module, target: FunctionGroup) -> dict[str, str]:
    """The functions that a module's forward seems to call and that cannot be seen, and why."""
    found = _code_of(module)
    named = {name for code in found.codes for name in code.co_names} | found.others
    return {name: why for name, why in target.unseen.items() if name in named}


def calls_by_itself(module: nn.Module, function: Function) -> bool:
    """True if a module's own forward seems to call a function, and that of none of its parts."""
    callers = (_code_of(part).mentions(function) for part in modules_of(module))  # itself first
    return next(callers) and not any(callers)


def _is_called(target: Function | FunctionGroup, module: nn.Module, code: _Code) -> bool:
    """True if a forward seems to call a function, or one of a group."""

    def is_named(functions: Iterable[Function]) -> bool:
        return any(map(code.mentions, functions))

    members = members_of(target, module)
    if is_named(members):
        return True
    if not isinstance(target, FunctionGroup) or is_named(target.through):
        return isinstance(target, FunctionGroup)
    has_layer = any(isinstance(part, target.layers) for part in children_of(module))
    if not has_layer and not is_named(target.of_scores):
        return False
    # Scores are one product, and what is made of their softmax is another.
    return set(target.of_scores) <= set(members) or sum(map(_products_in, code.codes)) > 1


class _Code(NamedTuple):
    """The functions that a module's forward names, as far as their code is known.

    Attributes:
        codes: The code of the forward, and of its own methods and functions that it names.
        others: The own names of functions that it has under other names, or compiled.
    """

    codes: list[types.CodeType]
    others: set[str]

    def mentions(self, function: Function) -> bool:
        """True if a function seems to be called."""
        if any(_mentions(code, function) for code in self.codes):
            return True
        return function not in OPERATORS and getattr(function, "__name__", "") in self.others


def _code_of(module: nn.Module) -> _Code:
    kind, waiting = type(module), [(getattr(type(module), "forward", None), 0)]
    codes, others = _Code([], set())
    own = vars(module)
    seen: set[types.CodeType] = set()
    while waiting:
        function, depth = waiting.pop()
        function = getattr(function, "__wrapped__", function)
        if not isinstance(function, types.FunctionType) or depth > _DEEPEST:
            continue
        code = function.__code__
        if code in seen:
            continue
        seen.add(code)
        for inner in _nested(code):
            codes.append(inner)
            named = [getattr(k, name, None) for k in kind.__mro__ for name in inner.co_names]
            held = [function.__globals__.get(name) for name in inner.co_names]
            named += [*held, *(each for found in held for each in _registered(found))]
            waiting += [(found, depth + 1) for found in named if _is_the_users(found)]
            named += [own.get(name) for name in inner.co_names]
            others.update(found.__name__ for found in named if _is_torchs(found))
    return _Code(codes, others)


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _registered(found: Any) -> Iterator[Any]:
    """The functions in a registry, of which a forward takes one by name.

    That is a dictionary, or an object that keeps some in attributes; none of its code runs.
    """
    is_object = isinstance(found, Mapping) and type(found) is not dict
    spaces = (vars(type(found)), getattr(found, "__dict__", {})) if is_object else ({"": found},)
    for held in (value for space in spaces for value in space.values()):
        if type(held) is dict:
            yield from held.values()


def _is_the_users(found: Any) -> bool:
    is_function = isinstance(found, types.FunctionType)
    return is_function and (found.__module__ or "").partition(".")[0] != "torch"


def _is_torchs(found: Any) -> TypeGuard[types.FunctionType | types.BuiltinFunctionType]:
    """True for a function of torch's, also for what `torch.compile` made of one."""
    is_function = isinstance(found, types.FunctionType | types.BuiltinFunctionType)
    return is_function and (found.__module__ or "").partition(".")[0] == "torch"


def _mentions(code: types.CodeType, function: Function) -> bool:
    if function in OPERATORS:
        return function in operators_in(code).values()
    return getattr(function, "__name__", "") in code.co_names


@functools.cache
def _products_in(code: types.CodeType) -> int:
    """The number of products of tensors that a code seems to make."""
    named = sum(i.argval in _PRODUCTS for i in dis.get_instructions(code))
    return named + sum(f is operator.matmul for f in operators_in(code).values())


def operators_in(code: types.CodeType) -> dict[int, Function]:
    """The operators of a code, by the offsets of their instructions."""
    # Code that torch's compiler made may hold a dictionary as a constant, and then has no hash.
    instructions = code.co_code
    if instructions not in _OPERATORS_IN:
        known = _by_instruction()
        found = {i.offset: known.get((i.opname, i.argrepr)) for i in dis.get_instructions(code)}
        _OPERATORS_IN[instructions] = {k: f for k, f in found.items() if f is not None}
    return _OPERATORS_IN[instructions]


_OPERATORS_IN: dict[bytes, dict[int, Function]] = {}


@functools.cache
def _by_instruction() -> dict[tuple[str, str], Function]:
    """The operators by the name and the argument of their instruction.

    Both differ from one version of Python to the next, so they are taken from this one.
    """
    return {
        (found.opname, found.argrepr): function
        for form, function in _FORMS.items()
        for found in dis.get_instructions(compile(form, "<operator>", "exec"))
        if found.opname.startswith(_OPERATIONS)
    }
