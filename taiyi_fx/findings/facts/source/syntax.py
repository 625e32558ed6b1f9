"""The parts of code that readers of training loops look for: scopes, loops, calls, what is set."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

LOOPS = (ast.For, ast.AsyncFor, ast.While)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
OWN = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
"""Code within other code that runs by itself."""
BY_NAME = frozenset({"locals", "vars", "eval", "exec"})
"""Functions by which any variable may be read."""
WITHOUT_GRADIENT = re.compile(r"no_grad|inference_mode")
"""What turns gradients off: a context, or a decorator."""
_SETTINGS = frozenset("args cfg config conf opt opts options hparams hp params flags self".split())
"""Names of what holds settings."""
_LIBRARIES = frozenset("torch F nn.functional torch.nn.functional math np numpy".split())
"""Names of modules whose functions are those of a tensor, too."""
Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scope: TypeAlias = ast.Module | Function


def parsed(code: str) -> ast.Module:
    """The code as readers take it: each ``x: int = 1`` and ``f(x := 1)`` is written as ``x = 1``.

    Raises:
        SyntaxError: It is not Python's.
        RecursionError: It is nested beyond what can be read.
    """
    try:
        tree = ast.parse(code)
    except ValueError as error:  # of a character that no code has, before Python 3.12
        raise SyntaxError(str(error)) from error
    return _WithoutForms().visit(tree)


class _WithoutForms(ast.NodeTransformer):
    """Writes each form of an assignment as a statement, that of an expression before its own."""

    def __init__(self) -> None:
        self._before = list[ast.stmt]()

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, ast.stmt):
            return super().visit(node)
        outer, self._before = self._before, []
        made = super().visit(node)
        before, self._before = self._before, outer
        return [*before, made] if before else made

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        if node.value is None:
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        self.generic_visit(node)
        self._before.append(ast.copy_location(ast.Assign([node.target], node.value), node))
        return ast.copy_location(ast.Name(node.target.id, ast.Load()), node)


def scopes_of(tree: ast.Module) -> list[Scope]:
    """The code of a file that runs as it is read, and all functions and methods."""
    return [tree, *(node for node in walked(tree) if isinstance(node, FUNCTIONS))]


def walked(node: ast.AST) -> Sequence[ast.AST]:
    """All in some code, and itself, as `ast.walk` has them: kept with it, as many readers ask."""
    return _kept(node, "_walked", ast.walk)


def inner(node: ast.AST) -> Sequence[ast.AST]:
    """All in some code, but for what is in functions and classes in it; kept likewise."""
    return _kept(node, "_inner", _inner)


def _kept(
    node: ast.AST, name: str, find: Callable[[ast.AST], Iterable[ast.AST]]
) -> Sequence[ast.AST]:
    kept = vars(node)
    if name not in kept:
        kept[name] = [*find(node)]
    return kept[name]


def _inner(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, OWN):
            yield child
            yield from _inner(child)


def blocks_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of statements that a statement has, as that of ``else``, or those of a file."""
    blocks = (getattr(node, name, None) for name in ("body", "orelse", "finalbody"))
    return (block for block in blocks if isinstance(block, list))


def statements_in(scope: ast.AST) -> list[ast.stmt]:
    """The statements of some code in the order of their lines, without those of others in it."""
    found = [node for node in inner(scope) if isinstance(node, ast.stmt)]
    return sorted(found, key=lambda node: node.lineno)


def calls_in(scope: ast.AST) -> list[ast.Call]:
    """The calls in some code, likewise."""
    found = [node for node in inner(scope) if isinstance(node, ast.Call)]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def loops_in(scope: ast.AST) -> Iterator[Loop]:
    """The loops in some code, likewise."""
    return (node for node in inner(scope) if isinstance(node, LOOPS))


def called(call: ast.Call) -> str:
    """The last name of what is called, as ``"backward"`` of ``loss.backward()``; else empty."""
    of = call.func
    return of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")


class Method(NamedTuple):
    """A call of a method, or of a function that stands for one.

    Attributes:
        name: The name.
        of: What it is called of.
        args: The other arguments by position.
        told: Those by name.
    """

    name: str
    of: ast.expr
    args: Sequence[ast.expr]
    told: Mapping[str | None, ast.expr]


def method_of(node: ast.AST) -> Method | None:
    """A call as one of a method: ``torch.lerp(a, b, w)`` is ``a.lerp(b, w)``; None of others.

    So is ``torch._foreach_lerp_(a, b, w)``, of lists, ``a.lerp_(b, w)``.
    """
    if not isinstance(node, ast.Call):
        return None
    told = {one.arg: one.value for one in node.keywords}
    if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in _LIBRARIES:
        return Method(node.func.attr, node.func.value, node.args, told)
    if not node.args:
        return None
    return Method(called(node).removeprefix("_foreach_"), node.args[0], node.args[1:], told)


def names_in(node: ast.AST, kind: type[ast.expr_context] = ast.Load) -> set[str]:
    """The names of variables that some code reads; or sets, by `ast.Store`."""
    names = (x for x in walked(node) if isinstance(x, ast.Name))
    return {x.id for x in names if isinstance(x.ctx, kind)}


class Given(NamedTuple):
    """A value that a statement gives to a name.

    Attributes:
        name: The name, also of an attribute or an entry, as ``"self.alpha"``, ``"losses['kl']"``.
        value: The value; of ``x += y`` it is ``x + y``, and that of a tuple for a part of it.
        line: The line of the statement.
    """

    name: str
    value: ast.expr
    line: int


def given_in(nodes: Iterable[ast.AST]) -> Iterator[Given]:
    """The values that some statements give to names, in their order."""
    for node in nodes:
        if isinstance(node, ast.AugAssign):
            value = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
            yield Given(ast.unparse(node.target), value, node.lineno)
        elif isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in _pairs(target, node.value)]
            yield from (Given(*pair, node.lineno) for pair in pairs)


def values_in(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """All values that some statements give to each name, in their order."""
    found: dict[str, list[ast.expr]] = {}
    for name, value, _ in given_in(nodes):
        found.setdefault(name, []).append(value)
    return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        is_written = isinstance(value, (ast.Tuple, ast.List))
        values = value.elts if is_written else [value] * len(target.elts)
        for one, its in zip(target.elts, values, strict=False):
            yield from _pairs(one, its)
    else:
        yield ast.unparse(target), value


def made_by(names: Collection[str], nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.Call]]:
    """The names that are given the result of one of some functions or classes, and the call."""
    for name, value, _ in given_in(nodes):
        if isinstance(value, ast.Call) and called(value) in names:
            yield name, value


def is_without_gradient(node: ast.AST) -> bool:
    """True for ``with torch.no_grad():``, and the like."""
    items = node.items if isinstance(node, ast.With) else []
    return any(WITHOUT_GRADIENT.search(ast.unparse(one.context_expr)) for one in items)


def has_backward(scope: ast.AST) -> bool:
    """True for code with a call of backward in it, but for that of functions in it."""
    return any(called(call) in ("backward", "manual_backward") for call in calls_in(scope))


def minimized_in(scope: ast.AST) -> Iterator[ast.expr]:
    """All of which ``backward`` is called, as it is or scaled."""
    for node in walked(scope):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            if node.func.attr == "backward":
                yield of
                yield from of.args if isinstance(of, ast.Call) else ()
            if node.func.attr in ("backward", "manual_backward"):
                yield from node.args[:1]


def added_up(node: ast.stmt, minimized: Collection[str]) -> ast.expr | None:
    """The value that a statement gives to what is minimized, or adds to it; None of others."""
    if isinstance(node, ast.Assign):
        is_loss = not {*minimized}.isdisjoint(map(ast.unparse, node.targets))
        return node.value if is_loss else None
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return node.value if ast.unparse(node.target) in minimized else None
    return None


def whose(call: ast.Call) -> str:
    """The thing of which a method is called, as ``"optimizer"``; empty of a plain function."""
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def terms_of(value: ast.expr) -> Iterator[ast.expr]:
    """The terms of a sum; a thing that is no sum is its own."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        yield from terms_of(value.left)
        yield from terms_of(value.right)
    else:
        yield value


def is_number(value: ast.expr) -> bool:
    """True for a number that is written down."""
    return isinstance(value, ast.Constant) and isinstance(value.value, (int, float))


def is_setting(value: ast.expr) -> bool:
    """True for a number that is written down, a constant by its name, and what settings hold."""
    if isinstance(value, ast.Attribute):
        return isinstance(value.value, ast.Name) and value.value.id in _SETTINGS
    return is_number(value) or (isinstance(value, ast.Name) and value.id.isupper())


def factors_of(value: ast.expr) -> tuple[int, list[ast.expr]]:
    """The sign of a product, 1 or -1, and its factors; a thing that is no product is its own."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        sign, factors = factors_of(value.operand)
        return -sign, factors
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        (a, left), (b, right) = factors_of(value.left), factors_of(value.right)
        return a * b, [*left, *right]
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        return factors_of(value.left)
    return 1, [value]


def signed_terms_of(value: ast.expr, sign: int = 1) -> Iterator[tuple[int, ast.expr]]:
    """The terms of a sum, each with the sign that it has in it."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        yield from signed_terms_of(value.left, sign)
        yield from signed_terms_of(value.right, -sign if isinstance(value.op, ast.Sub) else sign)
    elif isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        yield from signed_terms_of(value.operand, -sign)
    else:
        own, factors = factors_of(value)
        yield sign * own, factors[0] if len(factors) == 1 else value
