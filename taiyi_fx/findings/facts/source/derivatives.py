"""Derivatives in code that are computed without a graph, and of which a loss is made all the same.

As a penalty on a critic's gradient, by ``torch.autograd.grad`` without ``create_graph=True``: it is
added to the loss as a number, and no weight feels it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    Function,
    Scope,
    added_up,
    is_number,
    is_setting,
    minimized_in,
    statements_in,
    terms_of,
    walked,
)

_PLACE = 4
"""The place of ``create_graph`` among the arguments of ``torch.autograd.grad``."""
_HOMES = frozenset("torch F torch.nn.functional torch.linalg".split())
_REDUCING = frozenset(
    "view reshape flatten squeeze unsqueeze size norm mean sum pow square sqrt abs clamp clip "
    "max min relu to float double contiguous t".split()
)
"""Methods that make something of their tensor, whatever else they are told."""
_Derived: TypeAlias = dict[str, ast.Call]
"""The call that computes a derivative, by the names of what is made of it."""


def terms_without_gradient(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls that compute a derivative without a graph, which is added to what is minimized.

    Nothing is told of one that weighs another term, as a weight is to be a number.
    """
    code = _Code(tree)
    found = (call for scope in (tree, *code.functions) for call in code.added(scope))
    yield from {id(call): call for call in found}.values()


def keeps_no_graph(call: ast.Call) -> bool:
    """True for a call of ``torch.autograd.grad`` that is not told to keep a graph."""
    told = {keyword.arg: keyword.value for keyword in call.keywords}
    asked = told.get("create_graph", ast.Constant(False))
    is_kept = not isinstance(asked, ast.Constant) or bool(asked.value)
    return None not in told and len(call.args) <= _PLACE and not is_kept


class _Code:
    """The code of one file.

    Args:
        tree: Its syntax.

    Attributes:
        functions: All functions and methods.
    """

    def __init__(self, tree: ast.Module) -> None:
        every = [*walked(tree)]
        self.functions = [node for node in every if isinstance(node, FUNCTIONS)]
        imports = (x for x in every if isinstance(x, ast.ImportFrom))
        self._grads = {
            name.asname or name.name
            for x in imports
            for name in x.names
            if (x.module, name.name) == ("torch.autograd", "grad")
        }
        self._numbers = _numbers(every, self.functions)
        self._returning: _Derived = {}
        for function in self.functions:
            if (call := self._returned(function)) is not None:
                self._returning[function.name] = call

    def added(self, scope: Scope) -> Iterator[ast.Call]:
        """The calls that a term of a loss in some code comes from."""
        minimized = {ast.unparse(of) for of in minimized_in(scope)}
        derived: _Derived = {}
        for node in statements_in(scope):
            terms = _terms_of_loss(node, minimized)
            known = [self._source(term, derived) for term in terms]
            has_others = None in known or isinstance(node, ast.AugAssign)
            if has_others:
                yield from (call for call in known if call is not None)
            self._follow(node, derived)

    def _returned(self, function: Function) -> ast.Call | None:
        """The call of which a function returns what is made of its result."""
        derived: _Derived = {}
        for node in statements_in(function):
            self._follow(node, derived)
            given = node.value if isinstance(node, ast.Return) else None
            found = given and self._source(given, derived)
            if found is not None:
                return found
        return None

    def _follow(self, node: ast.stmt, derived: _Derived) -> None:
        """Notes the names that a statement gives to what is made of a derivative."""
        if not isinstance(node, ast.Assign):
            return
        found = self._source(node.value, derived)
        for name in (x.id for t in node.targets for x in walked(t) if isinstance(x, ast.Name)):
            derived.pop(name, None)
            if found is not None:
                derived[name] = found

    def _source(self, value: ast.expr, derived: _Derived) -> ast.Call | None:
        """The call whose result an expression is made of alone, with numbers and settings.

        None of what anything else goes into, as of samples that are moved along a gradient, and of
        what is a number on purpose.
        """
        if isinstance(value, ast.Name):
            return derived.get(value.id)
        if isinstance(value, ast.Call):
            return self._source_of_call(value, derived)
        if isinstance(value, (ast.GeneratorExp, ast.ListComp)):
            return self._source_of_each(value, derived)
        if isinstance(value, (ast.Subscript, ast.Attribute)):
            return self._source(value.value, derived)
        if isinstance(value, ast.UnaryOp):
            return self._source(value.operand, derived)
        if isinstance(value, ast.BinOp):
            return self._source_of_all((value.left, value.right), derived)
        return None

    def _source_of_call(self, call: ast.Call, derived: _Derived) -> ast.Call | None:
        if self._is_derivative(call):
            return call
        if (name := _called(call)) in self._returning:
            return self._returning[name]
        of = call.func
        if isinstance(of, ast.Attribute) and ast.unparse(of.value) not in _HOMES:
            return None if of.attr not in _REDUCING else self._source(of.value, derived)
        is_known = isinstance(of, ast.Attribute) or name == "sum"
        return self._source_of_all(call.args, derived) if is_known else None

    def _source_of_each(
        self, value: ast.GeneratorExp | ast.ListComp, derived: _Derived
    ) -> ast.Call | None:
        """That of what is made of each of several derivatives."""
        inner = dict(derived)
        for one in value.generators:
            found = self._source(one.iter, inner)
            if found is None or not isinstance(one.target, ast.Name):
                return None
            inner[one.target.id] = found
        return self._source(value.elt, inner)

    def _source_of_all(self, parts: Sequence[ast.expr], derived: _Derived) -> ast.Call | None:
        """That of several parts, each of which is made of a derivative, or a number."""
        known = [self._source(part, derived) for part in parts]
        others = (part for part, call in zip(parts, known, strict=True) if call is None)
        if not all(map(self._is_number, others)):
            return None
        return next((call for call in known if call is not None), None)

    def _is_derivative(self, call: ast.Call) -> bool:
        """True for ``torch.autograd.grad`` that is not told to keep a graph."""
        name = ast.unparse(call.func)
        is_grad = name in self._grads or name.endswith("autograd.grad")
        return is_grad and keeps_no_graph(call)

    def _is_number(self, value: ast.expr) -> bool:
        """True for a number, a setting, and a name that is a number wherever it is set."""
        if isinstance(value, ast.BinOp):
            return self._is_number(value.left) and self._is_number(value.right)
        if isinstance(value, ast.UnaryOp):
            return self._is_number(value.operand)
        if isinstance(value, ast.Name) and value.id in self._numbers:
            return True
        return is_setting(value) or isinstance(value, ast.Constant)


def _numbers(every: Sequence[ast.AST], functions: Sequence[Function]) -> set[str]:
    """The names that are numbers wherever they are set, and arguments that are so by default."""
    sets = [(x.targets, x.value) for x in every if isinstance(x, ast.Assign)]
    for of in (function.args for function in functions):
        every_one = [*of.posonlyargs, *of.args]
        named = every_one[len(every_one) - len(of.defaults) :]
        with_default = [*zip(named, of.defaults, strict=True)]
        with_default += [
            (name, value)
            for name, value in zip(of.kwonlyargs, of.kw_defaults, strict=True)
            if value is not None
        ]
        sets += [([ast.Name(name.arg)], value) for name, value in with_default]
    of_numbers, of_others = (
        {name for names, value in sets if is_number(value) is wanted for name in _written(names)}
        for wanted in (True, False)
    )
    return of_numbers - of_others


def _written(targets: Sequence[ast.expr]) -> Iterator[str]:
    return (x.id for target in targets for x in walked(target) if isinstance(x, ast.Name))


def _called(call: ast.Call) -> str:
    """The name of a function that is called as it is, or as a method of ``self``; else empty."""
    of = call.func
    if isinstance(of, ast.Attribute) and ast.unparse(of.value) == "self":
        return of.attr
    return of.id if isinstance(of, ast.Name) else ""


def _terms_of_loss(node: ast.stmt, minimized: set[str]) -> list[ast.expr]:
    """The terms of the sum that a statement makes of a loss; none of another statement."""
    value = added_up(node, minimized)
    if value is None and isinstance(node, ast.Expr):
        value = next(minimized_in(node), None)
    return [*terms_of(value)] if value is not None else []
