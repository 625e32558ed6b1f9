"""Averages of weights that code moves the wrong way round: by 0.99 of the new, and not by 0.01."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    Method,
    blocks_of,
    called,
    factors_of,
    given_in,
    is_number,
    method_of,
    signed_terms_of,
    walked,
)

_AVERAGES = re.compile(
    r"(^|[._])(ema|avg|average[ds]?|tgt|target|teacher|shadow|slow|momentum)(_|$)"
)
_KINDS = re.compile(r"EMA|Ema(?![a-z])|Averag")
"""Names of classes that hold an average."""
_NEARLY_ALL, _ALL = 0.9, 1.0
"""Shares of the new: a target that is loaded anew takes all of it."""


class _Step(NamedTuple):
    """A step of an average.

    Attributes:
        of: The average.
        new: What it takes a part of.
        share: That part.
        code: What is told of.
    """

    of: ast.expr
    new: ast.expr
    share: ast.expr
    code: ast.expr


def turned_averages(tree: ast.Module) -> Iterator[ast.expr]:
    """The steps by which an average of weights takes nine tenths and more of the new ones.

    As ``ema.lerp_(p, 0.999)`` and ``target.mul_(0.005).add_(p, alpha=0.995)``, by the names of what
    is averaged, and where the numbers are written in the file.
    """
    numbers, models = _numbers_of(tree), _models_of(tree)
    for step in _steps_in(tree):
        share = _value(step.share, numbers)
        is_average = _is_average(step.of, models) and not _is_average(step.new, models)
        if is_average and share is not None and _NEARLY_ALL <= share < _ALL:
            yield step.code
    yield from _torch_averages(tree, numbers)


def _torch_averages(tree: ast.Module, numbers: Mapping[str, float]) -> Iterator[ast.expr]:
    """The averages of `torch.optim.swa_utils` that are told to keep a tenth and less of the old."""
    for call in (x for x in walked(tree) if isinstance(x, ast.Call)):
        if called(call) in ("get_ema_avg_fn", "get_ema_multi_avg_fn"):
            told = [*call.args, *(one.value for one in call.keywords if one.arg == "decay")]
            kept = _value(told[0], numbers) if told else None
            if kept is not None and 0 < kept <= 1 - _NEARLY_ALL:
                yield call


def averages_without_buffers(tree: ast.Module) -> Iterator[ast.expr]:
    """The loops that move an average towards a model's parameters alone, and leave its buffers.

    Of an average that is used in evaluation mode, in which the buffers of a BatchNorm tell.
    """
    code = ast.unparse(tree)
    kinds = [x for x in walked(tree) if isinstance(x, ast.ClassDef) and _KINDS.search(x.name)]
    own = {id(x) for kind in kinds for x in walked(kind)}
    for loop in (x for x in walked(tree) if isinstance(x, ast.For)):
        pairs = loop.iter
        if not (isinstance(pairs, ast.Call) and called(pairs) == "zip" and len(pairs.args) == 2):
            continue
        of, other = (_model_of(argument) for argument in pairs.args)
        steps = [*_steps_in(loop)]
        is_own = id(loop) in own and of.startswith("self.")
        is_average = is_own or _AVERAGES.search(f"{of.lower()}_") is not None
        if of and other and steps and is_average and _evaluates(of, code):
            yield pairs


def _model_of(value: ast.expr) -> str:
    """The model whose parameters are gone through; empty of anything else."""
    is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
    of = value.func if is_call and isinstance(value, ast.Call) else None
    is_known = isinstance(of, ast.Attribute) and of.attr in ("parameters", "named_parameters")
    return ast.unparse(of.value) if isinstance(of, ast.Attribute) and is_known else ""


def _evaluates(of: str, code: str) -> bool:
    """True for a model that code puts into evaluation mode, and whose buffers it never takes."""
    taken = ("buffers", "named_buffers", "state_dict", "load_state_dict", "train")
    is_put = f"{of}.eval()" in code or re.search(rf"\b{re.escape(of)} = .*\.eval\(\)", code)
    return (
        bool(is_put)
        and not any(f"{of}.{name}(" in code for name in taken)
        and ("update_bn" not in code)
    )


def _steps_in(tree: ast.AST) -> Iterator[_Step]:
    """All steps of averages in some code, each written by one statement or by two."""
    for node in walked(tree):
        step = _step(node)
        if step is not None:
            yield step
        for block in blocks_of(node):
            yield from filter(None, map(_of_two, block, block[1:]))


def _step(node: ast.AST) -> _Step | None:
    """The step of an average that a statement or a call is; None of others."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return _of_value(node.targets[0], node.value, node.value)
    if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)):
        found = _of_difference(node.target, node.value, None, isinstance(node.op, ast.Sub))
        return found and _Step(node.target, *found, node.value)
    call = method_of(node)
    if call is None or not isinstance(node, ast.Call) or not call.args:
        return None
    if call.name == "lerp_":
        return _of_lerp(call, node)
    if call.name == "copy_":
        return _of_value(call.of, call.args[0], node)
    if call.name in ("add_", "sub_"):
        alpha = call.told.get("alpha")
        found = _of_difference(call.of, call.args[0], alpha, call.name == "sub_")
        if found is not None:
            return _Step(call.of, *found, node)
    before = method_of(call.of)
    is_scaled = before is not None and before.name == "mul_"
    return _added(call, before.of, node) if before is not None and is_scaled else None


def _of_two(first: ast.stmt, second: ast.stmt) -> _Step | None:
    """The step that is a product in place, and then a sum of the same."""
    pair = [method_of(x.value) for x in (first, second) if isinstance(x, ast.Expr)]
    if len(pair) < 2 or not isinstance(second, ast.Expr):
        return None
    scaled, summed = pair
    if scaled is None or summed is None or scaled.name != "mul_":
        return None
    is_of_one = ast.unparse(scaled.of) == ast.unparse(summed.of)
    return _added(summed, summed.of, second.value) if is_of_one else None


def _added(call: Method, of: ast.expr, code: ast.expr) -> _Step | None:
    """The step whose new part is added to an average that was multiplied before."""
    if call.name != "add_" or not call.args:
        return None
    alpha = call.told.get("alpha")
    new, share = _parted(call.args[0]) if alpha is None else (call.args[0], alpha)
    return None if share is None else _Step(of, new, share, code)


def _of_lerp(call: Method, code: ast.expr) -> _Step | None:
    share = call.args[1] if len(call.args) > 1 else call.told.get("weight")
    return None if share is None else _Step(call.of, call.args[0], share, code)


def _of_value(of: ast.expr, value: ast.expr, code: ast.expr) -> _Step | None:
    """The step that gives an average another value, made of itself and of the new."""
    call = method_of(value)
    if call is not None and call.name == "lerp" and call.args:
        return _of_lerp(call, code) if ast.unparse(call.of) == ast.unparse(of) else None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub):
        is_own = ast.unparse(value.left) == ast.unparse(of)
        found = _of_difference(of, value.right, None, True) if is_own else None
        return found and _Step(of, *found, code)
    terms = [term for sign, term in signed_terms_of(value) if sign > 0]
    parts = [_parted(term) for term in terms]
    others = [(x, share) for x, share in parts if ast.unparse(x) != ast.unparse(of)]
    if len(parts) != 2 or len(others) != 1:
        return None
    new, share = others[0]
    if share is not None:
        return _Step(of, new, share, code)
    found = _of_difference(of, new, None, False)
    return found and _Step(of, *found, code)


def _of_difference(
    of: ast.expr, value: ast.expr, alpha: ast.expr | None, is_less: bool
) -> tuple[ast.expr, ast.expr] | None:
    """The new, and the share of its distance from the average that is added, or taken away."""
    factors = [value] if alpha is not None else factors_of(value)[1]
    distances = [x for x in factors if isinstance(x, ast.BinOp) and _is_distance(x, of)]
    shares = [alpha] if alpha is not None else [x for x in factors if x not in distances]
    if len(distances) != 1 or len(shares) != 1:
        return None
    ends = distances[0].left, distances[0].right
    new, old = ends if not is_less else ends[::-1]
    return (new, shares[0]) if ast.unparse(old) == ast.unparse(of) else None


def _is_distance(value: ast.BinOp, of: ast.expr) -> bool:
    ends = map(ast.unparse, (value.left, value.right))
    return isinstance(value.op, ast.Sub) and ast.unparse(of) in ends


def _parted(term: ast.expr) -> tuple[ast.expr, ast.expr | None]:
    """The weights of a product, and the share that they are multiplied by."""
    factors = factors_of(term)[1]
    shares = [x for x in factors if isinstance(x, ast.BinOp) or _is_named_number(x)]
    weights = [x for x in factors if x not in shares]
    if len(factors) != 2 or len(weights) != 1:
        return term, None
    return weights[0], shares[0]


def _is_named_number(value: ast.expr) -> bool:
    words = "tau decay alpha beta momentum m rate ema_decay polyak".split()
    name = ast.unparse(value).rpartition(".")[2].lower()
    return is_number(value) or (isinstance(value, (ast.Name, ast.Attribute)) and name in words)


def _is_average(of: ast.expr, models: Mapping[str, str]) -> bool:
    """True for weights that are named an average, or are those of a model that is."""
    while isinstance(of, ast.Subscript) or (isinstance(of, ast.Attribute) and of.attr == "data"):
        of = of.value
    name = ast.unparse(of).lower()
    return _AVERAGES.search(f"{name}_".replace("_p_", "_")) is not None or (
        _AVERAGES.search(models.get(name, "")) is not None
    )


def _models_of(tree: ast.Module) -> dict[str, str]:
    """The model of each weight that a loop goes through, by the weight's name."""
    found: dict[str, str] = {}
    for loop in (x for x in walked(tree) if isinstance(x, (ast.For, ast.comprehension))):
        for name, of in _pairs_of(loop.target, loop.iter):
            method = of.func if isinstance(of, ast.Call) else None
            model = method.value if isinstance(method, ast.Attribute) else of
            found[ast.unparse(name).lower()] = ast.unparse(model).lower()
    return found


def _pairs_of(target: ast.expr, over: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The names that a loop gives to weights, each with what these are weights of."""
    if isinstance(over, ast.Call) and called(over) == "zip" and isinstance(target, ast.Tuple):
        for name, of in zip(target.elts, over.args, strict=False):
            yield from _pairs_of(name, of)
    elif isinstance(target, ast.Tuple) and len(target.elts) == 2:
        yield target.elts[1], over  # of a name and the weights
    elif isinstance(target, ast.Name):
        yield target, over


def _numbers_of(tree: ast.Module) -> dict[str, float]:
    """The names that are one and the same number wherever they are set."""
    found: dict[str, set[float | None]] = {}
    for name, value, _ in given_in(walked(tree)):
        found.setdefault(name, set()).add(_value(value, {}))
    for of in (x.args for x in walked(tree) if isinstance(x, FUNCTIONS)):
        every = [*of.posonlyargs, *of.args]
        for one, value in zip(every[len(every) - len(of.defaults) :], of.defaults, strict=True):
            found.setdefault(one.arg, set()).add(_value(value, {}))
    alone = {name: values.pop() for name, values in found.items() if len(values) == 1}
    return {name: value for name, value in alone.items() if value is not None}


def _value(node: ast.expr, numbers: Mapping[str, float]) -> float | None:
    """The number that an expression of known numbers is; None of others."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        left, right = _value(node.left, numbers), _value(node.right, numbers)
        if left is None or right is None:
            return None
        return left - right if isinstance(node.op, ast.Sub) else left + right
    return numbers.get(ast.unparse(node))
