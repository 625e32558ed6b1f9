"""Random numbers that code begins anew in each step of a training."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

_SEEDS = frozenset(
    "torch.manual_seed torch.random.manual_seed torch.cuda.manual_seed torch.cuda.manual_seed_all "
    "random.seed np.random.seed numpy.random.seed".split()
)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_OWN = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def seeds_in_loops(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls that seed a generator by the same number in each turn of a loop that trains.

    Of the loop with backward in it alone, and of no branch, nor of a block as of ``fork_rng``.
    """
    for loop in (node for node in ast.walk(tree) if isinstance(node, _LOOPS)):
        inner = [*_inner(loop)]
        is_innermost = not any(isinstance(x, _LOOPS) for x in inner)
        if is_innermost and any(_is_backward(x) for x in inner):
            names = [x for x in inner if isinstance(x, ast.Name)]
            changing = {x.id for x in names if isinstance(x.ctx, ast.Store)}
            for node in loop.body:
                call = node.value if isinstance(node, ast.Expr) else None
                if isinstance(call, ast.Call) and _seeds_alike(call, changing):
                    yield call


def _inner(loop: ast.AST) -> Iterator[ast.AST]:
    """All in a loop, but for what is in functions in it."""
    for node in ast.iter_child_nodes(loop):
        if not isinstance(node, _OWN):
            yield node
            yield from _inner(node)


def _is_backward(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "backward"


def _seeds_alike(call: ast.Call, changing: Collection[str]) -> bool:
    """True if a call seeds by what is the same in each turn."""
    given = [x for one in call.args for x in ast.walk(one)]
    is_other = any(
        isinstance(x, ast.Call) or (isinstance(x, ast.Name) and x.id in changing) for x in given
    )
    return ast.unparse(call.func) in _SEEDS and bool(given) and not is_other
