"""Averages of weights that code moves the wrong way round: by 0.99 of the new, and not by 0.01."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    called,
    factors_of,
    given_in,
    is_number,
    signed_terms_of,
)

_AVERAGES = re.compile(
    r"(^|[._])(ema|avg|average[ds]?|tgt|target|teacher|shadow|slow|momentum)(_|$)"
)
_KINDS = re.compile(r"EMA|Ema(?![a-z])|Averag")
"""Names of classes that hold an average."""
_NEARLY_ALL, _ALL = 0.9, 1.0
"""Shares of the new: a target that is loaded anew takes all of it."""


def turned_averages(tree: ast.Module) -> Iterator[ast.expr]:
    """The steps by which an average of weights takes nine tenths and more of the new ones.

    As ``ema.lerp_(p, 0.999)`` and ``target.mul_(0.005).add_(p, alpha=0.995)``, by the names of what
    is averaged, and where the numbers are written in the file.
    """
    numbers, models = _numbers_of(tree), _models_of(tree)
    for node in ast.walk(tree):
        step = _step(node)
        if step is None:
            continue
        of, new, share = step[0], step[1], _value(step[2], numbers)
        is_average = _is_average(of, models) and not _is_average(new, models)
        if is_average and share is not None and _NEARLY_ALL <= share < _ALL:
            yield step[3]


def averages_without_buffers(tree: ast.Module) -> Iterator[ast.expr]:
    """The loops that move an average towards a model's parameters alone, and leave its buffers.

    Of an average that is used in evaluation mode, in which the buffers of a BatchNorm tell.
    """
    code = ast.unparse(tree)
    kinds = [x for x in ast.walk(tree) if isinstance(x, ast.ClassDef) and _KINDS.search(x.name)]
    own = {id(x) for kind in kinds for x in ast.walk(kind)}
    for loop in (x for x in ast.walk(tree) if isinstance(x, ast.For)):
        pairs = loop.iter
        if not (isinstance(pairs, ast.Call) and called(pairs) == "zip" and len(pairs.args) == 2):
            continue
        of, other = (_model_of(argument) for argument in pairs.args)
        steps = [step for node in ast.walk(loop) if (step := _step(node)) is not None]
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


def _step(node: ast.AST) -> tuple[ast.expr, ast.expr, ast.expr, ast.expr] | None:
    """The average, the new, the share of it, and the code of a step; None of what is none."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return _of_sum(node.targets[0], node.value, node.value)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    of, name = node.func.value, called(node)
    if name == "lerp_" and len(node.args) == 2:
        return of, node.args[0], node.args[1], node
    if name == "copy_" and len(node.args) == 1:
        return _of_sum(of, node.args[0], node)
    is_sum = name == "add_" and isinstance(of, ast.Call) and called(of) == "mul_" and node.args
    if is_sum and isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute):
        told = [one.value for one in node.keywords if one.arg == "alpha"]
        new, share = (node.args[0], told[0]) if told else _parted(node.args[0])
        return None if share is None else (of.func.value, new, share, node)
    return None


def _of_sum(
    of: ast.expr, value: ast.expr, code: ast.expr
) -> tuple[ast.expr, ast.expr, ast.expr, ast.expr] | None:
    """A step that is written as the sum of the average and the new, each by its share."""
    terms = [term for sign, term in signed_terms_of(value) if sign > 0]
    parts = [_parted(term) for term in terms]
    others = [(x, share) for x, share in parts if ast.unparse(x) != ast.unparse(of)]
    if len(parts) != 2 or len(others) != 1 or others[0][1] is None:
        return None
    return of, others[0][0], others[0][1], code


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
    name = ast.unparse(of).removesuffix(".data").lower()
    return _AVERAGES.search(f"{name}_".replace("_p_", "_")) is not None or (
        _AVERAGES.search(models.get(name, "")) is not None
    )


def _models_of(tree: ast.Module) -> dict[str, str]:
    """The model of each weight that a loop over pairs goes through, by the weight's name."""
    found: dict[str, str] = {}
    for loop in (x for x in ast.walk(tree) if isinstance(x, ast.For)):
        pairs = loop.iter
        names = loop.target.elts if isinstance(loop.target, ast.Tuple) else []
        if isinstance(pairs, ast.Call) and called(pairs) == "zip":
            for name, of in zip(names, pairs.args, strict=False):
                method = of.func if isinstance(of, ast.Call) else None
                model = method.value if isinstance(method, ast.Attribute) else of
                found[ast.unparse(name).lower()] = ast.unparse(model).lower()
    return found


def _numbers_of(tree: ast.Module) -> dict[str, float]:
    """The names that are one and the same number wherever they are set."""
    found: dict[str, set[float | None]] = {}
    for name, value, _ in given_in(ast.walk(tree)):
        found.setdefault(name, set()).add(_value(value, {}))
    for of in (x.args for x in ast.walk(tree) if isinstance(x, FUNCTIONS)):
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
