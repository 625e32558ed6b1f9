"""Random numbers that code begins anew in each step of a training."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from taiyi_fx.findings.facts.source.syntax import LOOPS, has_backward, inner, walked

_SEEDS = frozenset(
    "torch.manual_seed torch.random.manual_seed torch.cuda.manual_seed torch.cuda.manual_seed_all "
    "random.seed np.random.seed numpy.random.seed".split()
)


def seeds_in_loops(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls that seed a generator by the same number in each turn of a loop that trains.

    Of the loop with backward in it alone, and of no branch, nor of a block as of ``fork_rng``.
    """
    for loop in (node for node in walked(tree) if isinstance(node, LOOPS)):
        within = [*inner(loop)]
        is_innermost = not any(isinstance(x, LOOPS) for x in within)
        if is_innermost and has_backward(loop):
            names = [x for x in within if isinstance(x, ast.Name)]
            changing = {x.id for x in names if isinstance(x.ctx, ast.Store)}
            for node in loop.body:
                call = node.value if isinstance(node, ast.Expr) else None
                if isinstance(call, ast.Call) and _seeds_alike(call, changing):
                    yield call


def _seeds_alike(call: ast.Call, changing: Collection[str]) -> bool:
    """True if a call seeds by what is the same in each turn."""
    given = [x for one in call.args for x in walked(one)]
    is_other = any(
        isinstance(x, ast.Call) or (isinstance(x, ast.Name) and x.id in changing) for x in given
    )
    return ast.unparse(call.func) in _SEEDS and bool(given) and not is_other
