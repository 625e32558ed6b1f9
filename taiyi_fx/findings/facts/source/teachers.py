"""Teachers that are trained, or loaded, and asked in training mode all the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import (
    FUNCTIONS,
    Scope,
    called,
    calls_in,
    has_backward,
    inner,
    is_without_gradient,
    loops_in,
    scopes_of,
    values_in,
    walked,
    whose,
)

_TEACHER = re.compile(r"((\w+\.)*_?(\w+_)?teacher(_\w+)?)", re.IGNORECASE)
_ACTS_OTHERWISE = re.compile(r"[Dd]ropout|BatchNorm|batch_norm|resnet|vgg|densenet|mobilenet")
_OPTIMIZERS = re.compile(r"(Adam\w*|SGD|RMSprop|Adagrad|Adadelta|NAdam|RAdam|Lion|LBFGS)$")
_SWITCHES = frozenset({"eval", "train"})
_OF_ITSELF = frozenset("parameters isinstance id len print type hasattr getattr next".split())


def teachers_in_training_mode(tree: ast.Module) -> Iterator[ast.expr]:
    """The first call of a teacher, by its name, that nothing puts into evaluation mode.

    Of one that an optimizer of the file trained, or that was loaded; not of an average of its
    student, nor of one that is handed to functions, which may do it.
    """
    calls = [x for x in walked(tree) if isinstance(x, ast.Call)]
    for call, scope in _asked_in_training(tree):
        name = ast.unparse(call.func)
        own = [x for x in calls if whose(x) == name]
        is_elsewhere = _is_handed_on(name, tree) or _is_one_of_several(name, tree)
        if not is_elsewhere and not _is_put_into_evaluation(call, scope, own, tree):
            optimizers = (x for x in calls if _OPTIMIZERS.search(called(x)))
            is_trained = any(f"{name}.parameters()" in ast.unparse(x) for x in optimizers)
            if is_trained or any(map(_is_loaded_from_a_file, own)):
                yield call
                return


def _asked_in_training(tree: ast.Module) -> Iterator[tuple[ast.Call, Scope]]:
    """The calls of teachers in blocks without gradients of loops that train others."""
    if not _ACTS_OTHERWISE.search(ast.unparse(tree)):
        return
    for scope in scopes_of(tree):
        for loop in filter(has_backward, loops_in(scope)):
            for block in filter(is_without_gradient, inner(loop)):
                own = (x for x in calls_in(block) if x.args and _is_teacher(x.func))
                yield from ((call, scope) for call in own)


def _is_put_into_evaluation(
    call: ast.Call, scope: Scope, own: list[ast.Call], tree: ast.Module
) -> bool:
    """True for a teacher that is switched before it is called, or elsewhere, or as it is made."""
    here = {id(x) for x in calls_in(scope)}
    switches = (
        x for x in own if called(x) == "eval" or (called(x) == "train" and (x.args or x.keywords))
    )
    is_before = any(id(x) not in here or x.lineno < call.lineno for x in switches)
    values = values_in(walked(tree)).get(ast.unparse(call.func), ())
    return is_before or any(".eval()" in ast.unparse(value) for value in values)


def _is_loaded_from_a_file(call: ast.Call) -> bool:
    """False for one that is given what another model holds, as a copy of the student is."""
    return called(call) == "load_state_dict" and ".state_dict()" not in ast.unparse(call)


def _is_teacher(node: ast.expr) -> bool:
    is_name = isinstance(node, (ast.Name, ast.Attribute))
    return is_name and bool(_TEACHER.fullmatch(ast.unparse(node)))


def _is_one_of_several(name: str, tree: ast.Module) -> bool:
    """True for an entry of a list or the like, of which each may be put into evaluation."""
    several = (x.elts for x in walked(tree) if isinstance(x, (ast.Tuple, ast.List, ast.Set)))
    read = (x for elts in several for x in elts if isinstance(getattr(x, "ctx", None), ast.Load))
    return name in map(ast.unparse, read)


def _is_handed_on(name: str, tree: ast.Module) -> bool:
    """True for what other code is given, or whose parameters are walked beside another's.

    Not by a function of the file that switches no model.
    """
    functions = (x for x in walked(tree) if isinstance(x, FUNCTIONS))
    harmless = {x.name for x in functions if _SWITCHES.isdisjoint(map(called, calls_in(x)))}
    for call in (x for x in walked(tree) if isinstance(x, ast.Call)):
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        is_pair = called(call) == "zip" and any(name in ast.unparse(x) for x in given)
        is_known = called(call) in harmless | _OF_ITSELF
        is_given = not is_known and name in map(ast.unparse, given)
        if is_pair or is_given:
            return True
    return False
