"""Evaluations of a model that nothing puts into evaluation mode."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    WITHOUT_GRADIENT,
    Function,
    called,
    has_backward,
    is_without_gradient,
    made_by,
    walked,
    whose,
)

_EVALUATION = re.compile(
    r"(\b|_)(val|valid|validat\w+|test|eval|evaluat\w+|acc|accuracy|correct)(\b|_)"
)
_USUAL = frozenset("model net network classifier instrumented".split())
"""Names of models that a function is given."""


def evaluated_in_training_mode(tree: ast.Module) -> Iterator[ast.expr]:
    """The first call of a trained model in a block without gradients that is of an evaluation.

    Told by the names in the block, in files that train and put nothing into evaluation mode.
    """
    calls = [x for x in walked(tree) if isinstance(x, ast.Call)]
    are_trained = any(called(call) == "backward" for call in calls)
    if not are_trained or any(called(call) == "eval" or _switches(call) for call in calls):
        return
    models = _USUAL | {whose(call) for call in calls if called(call) == "parameters"}
    models |= {name for name, _ in made_by(("instrument",), walked(tree))}
    for block in filter(_is_without_gradient, walked(tree)):
        if _EVALUATION.search(ast.unparse(block)) and not has_backward(block):
            own = (x for x in walked(block) if isinstance(x, ast.Call) and x.args)
            found = [call for call in own if ast.unparse(call.func) in models]
            if found:
                yield found[0]
                return


def _switches(call: ast.Call) -> bool:
    """True for ``model.train(...)`` with an argument, which may be False."""
    return called(call) == "train" and bool(call.args or call.keywords)


def _is_without_gradient(node: ast.AST) -> TypeGuard[ast.With | Function]:
    if isinstance(node, FUNCTIONS):
        return any(WITHOUT_GRADIENT.search(ast.unparse(one)) for one in node.decorator_list)
    return is_without_gradient(node)
