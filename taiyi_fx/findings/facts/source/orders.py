"""Rows that code brings into another order than those that belong to them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator

from taiyi_fx.findings.facts.source.syntax import (
    LOOPS,
    Scope,
    called,
    given_in,
    has_backward,
    inner,
    made_by,
    scopes_of,
    statements_in,
    values_in,
    walked,
)

_KEPT = re.compile(r"cache|teacher|soft_?(target|label)|logits|precomputed")
"""Names of what was computed of each sample before."""
_DRAWS = frozenset({"randperm", "permutation"})
_DRAWS_ROWS = _DRAWS | {"randint", "choice", "integers"}
_INPUTS = re.compile(r"(\w*?)(?:x|xs|inputs?|images?|imgs?|data|features?|samples?|src)(_\w+)?")
_TARGETS = re.compile(r"(\w*?)(?:y|ys|targets?|labels?|tgt|classes)(_\w+)?")
"""Names that belong together where what is before and behind is the same: ``x_train, y_train``."""
_TURNS = frozenset({"reverse", "reversed", "flip", "flipud", "appendleft", "insert"})


def rewards_in_reversed_order(tree: ast.Module) -> Iterator[ast.expr]:
    """The lists of discounted sums that are made from the last on, and never turned round.

    As ``for r in reversed(rewards): total = r + gamma * total; returns.append(total)``.
    """
    for scope in scopes_of(tree):
        for loop in (node for node in inner(scope) if isinstance(node, (ast.For, ast.AsyncFor))):
            appended = _summed_into(loop) if _is_from_the_last(loop.iter) else None
            if appended is not None and not _turns_round(scope, loop):
                yield appended


def _is_from_the_last(over: ast.expr) -> bool:
    """True for ``reversed(...)`` of what is no range, whose numbers tell the place, and [::-1]."""
    if isinstance(over, ast.Call) and called(over) == "reversed":
        return not any(called(call) in ("range", "enumerate") for call in _calls(over))
    return isinstance(over, ast.Subscript) and _is_backwards(over.slice)


def _is_backwards(cut: ast.expr) -> bool:
    return isinstance(cut, ast.Slice) and cut.step is not None and ast.unparse(cut.step) == "-1"


def _calls(node: ast.AST) -> list[ast.Call]:
    return [x for x in walked(node) if isinstance(x, ast.Call)]


def _summed_into(loop: ast.For | ast.AsyncFor) -> ast.expr | None:
    """The call that appends a sum which goes on from turn to turn, by a factor; None if none."""
    sums: set[str] = set()
    for node in loop.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            goes_on = any(
                isinstance(x, ast.BinOp)
                and isinstance(x.op, ast.Mult)
                and name in (ast.unparse(x.left), ast.unparse(x.right))
                for x in walked(node.value)
            )
            sums |= {name} if goes_on else set()
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and called(call) == "append" and call.args:
            return call if ast.unparse(call.args[0]) in sums else None
    return None


def _turns_round(scope: Scope, loop: ast.AST) -> bool:
    """True if code turns anything round beside the loop's own way."""
    own = {id(x) for x in walked(getattr(loop, "iter", loop))}
    for node in inner(scope):
        if id(node) in own:
            continue
        if isinstance(node, ast.Call) and called(node) in _TURNS:
            return True
        if isinstance(node, ast.Subscript) and _is_backwards(node.slice):
            return True
    return False


def parted_pairs(tree: ast.Module) -> Iterator[ast.expr]:
    """The rows that are taken in another order than the targets, or inputs, that belong to them.

    As ``x[order[i : i + n]]`` beside ``y[i : i + n]``, and ``x = x[torch.randperm(n)]`` beside
    ``y = y[torch.randperm(n)]``, or both mixed with others that are drawn for each.
    """
    for scope in scopes_of(tree):
        if has_backward(scope):
            yield from _cut_alone(scope)
        yield from _drawn_apart(scope)


def leaked_targets(tree: ast.Module) -> Iterator[ast.expr]:
    """The targets that lie within the window which a model is given to tell them by.

    As ``ys.append(s[i + n - 1])`` beside ``xs.append(s[i : i + n])``.
    """
    for scope in scopes_of(tree):
        windows = {
            (ast.unparse(x.value), ast.unparse(x.slice.upper))
            for x in inner(scope)
            if isinstance(x, ast.Subscript) and isinstance(x.slice, ast.Slice) and x.slice.upper
        }
        for given in _given_to_targets(scope):
            place = given.slice
            if not isinstance(place, ast.BinOp) or not isinstance(place.op, ast.Sub):
                continue
            if (ast.unparse(given.value), ast.unparse(place.left)) in windows:
                yield given


def _given_to_targets(scope: Scope) -> Iterator[ast.Subscript]:
    """The entries that code puts into what is named as targets are."""
    for node in inner(scope):
        if isinstance(node, ast.Call) and called(node) == "append" and node.args:
            of, value = ast.unparse(node.func).removesuffix(".append"), node.args[0]
        elif isinstance(node, ast.Assign):
            of, value = ast.unparse(node.targets[0]), node.value
        else:
            continue
        if _TARGETS.fullmatch(of.lower()):
            yield from _entries_in(value)


def _entries_in(value: ast.expr) -> Iterator[ast.Subscript]:
    """The entries that a value is, or is made of; none of those that something is computed of."""
    if isinstance(value, ast.Subscript):
        yield value
    elif isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        yield from _entries_in(value.elt)
    elif isinstance(value, (ast.List, ast.Tuple, ast.Call)):
        for part in value.args if isinstance(value, ast.Call) else value.elts:
            yield from _entries_in(part)


def _cut_alone(scope: Scope) -> Iterator[ast.expr]:
    """The rows that are cut as an order is, by the same places, in the same turn of a loop."""
    orders = {name for name, _ in made_by(_DRAWS, inner(scope))}
    every = [node for node in inner(scope) if isinstance(node, ast.Subscript)]
    parts = {
        name
        for name, value, _ in given_in(inner(scope))
        if isinstance(value, ast.Subscript) and ast.unparse(value.value) in orders
    }
    ordered = {ast.unparse(x.value) for x in every if _names_any(x.slice, orders | parts)} - orders
    for loop in (node for node in inner(scope) if isinstance(node, LOOPS) and has_backward(node)):
        cuts = [x for x in inner(loop) if isinstance(x, ast.Subscript)]
        cuts = [x for x in cuts if isinstance(x.slice, ast.Slice) and isinstance(x.value, ast.Name)]
        at = {ast.unparse(x.slice) for x in cuts if ast.unparse(x.value) in orders}
        for cut in cuts:
            name = ast.unparse(cut.value)
            is_alone = name not in orders | ordered and ast.unparse(cut.slice) in at
            if (
                is_alone
                and (_belongs_to_any(name, ordered) or (ordered and _KEPT.search(name.lower())))
                and not _is_set_by_order(scope, name, orders)
            ):
                yield cut


def _belongs_to_any(name: str, others: Collection[str]) -> bool:
    """True for the name of targets of which some others are the inputs, or the other way round."""
    for one, other in ((_INPUTS, _TARGETS), (_TARGETS, _INPUTS)):
        own = one.fullmatch(name.lower())
        every = (other.fullmatch(x.lower()) for x in others)
        if own and any(known and known.groups() == own.groups() for known in every):
            return True
    return False


def _is_set_by_order(scope: Scope, name: str, orders: set[str]) -> bool:
    """True for rows that anything brought into an order already, or that are an order's part."""
    values = values_in(statements_in(scope)).get(name, ())
    return any(_names_any(x, orders) or any(map(_is_drawn, _calls(x))) for x in values)


def _names_any(node: ast.AST, names: set[str]) -> bool:
    return any(
        isinstance(x, (ast.Name, ast.Attribute)) and ast.unparse(x) in names for x in walked(node)
    )


def _is_drawn(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and called(value) in _DRAWS


def _drawn_apart(scope: Scope) -> Iterator[ast.expr]:
    """The targets whose order is drawn once more, beside that of the inputs of the same name.

    In code that trains, and where inputs are mixed with others, as by ``a * x + b * x[order]``.
    """
    nodes = [*inner(scope)]
    draws = Counter(name for name, _ in made_by(_DRAWS_ROWS, nodes))
    once = {name for name, times in draws.items() if times == 1}
    expressions = [x for x in nodes if isinstance(x, ast.expr)]
    drawn = [(*of, x) for x in expressions if (of := _ordered_by_draw(x, once))]
    factors = {id(x) for x in nodes if _is_product(x) for x in walked(x)}
    trains = has_backward(scope)
    orders = dict[str, set[str]]()
    for name, order, node in drawn:
        if not _INPUTS.fullmatch(name) or trains or id(node) in factors:
            orders.setdefault(name, set()).add(order)
    inputs = {name for name in orders if _INPUTS.fullmatch(name)}
    for name, _, node in drawn:
        apart = {x for x in inputs if orders[x].isdisjoint(orders.get(name, ()))}
        if _TARGETS.fullmatch(name) and _belongs_to_any(name, apart):
            yield node


def _is_product(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _ordered_by_draw(node: ast.expr, drawn: Collection[str]) -> tuple[str, str] | None:
    """The name of what is taken by an index that is drawn, or shuffled, and which draw it is.

    Args:
        node: Some code.
        drawn: The names that are drawn once.
    """
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        by = node.slice
        if isinstance(by, ast.Call) and called(by) in _DRAWS_ROWS:
            return ast.unparse(node.value).lower(), f"{by.lineno}:{by.col_offset}"
        if isinstance(by, ast.Name) and by.id in drawn:
            return ast.unparse(node.value).lower(), by.id
    if isinstance(node, ast.Call) and called(node) == "shuffle" and len(node.args) == 1:
        return ast.unparse(node.args[0]).lower(), f"{node.lineno}:{node.col_offset}"
    return None
