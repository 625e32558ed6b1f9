"""Gradients of weights that are not those that their layers make."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.loss_graph import LossGraph
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, grouped, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.loss import is_of_player
from taiyi_fx.findings.rules.optimizer.rates import in_group

_FEW = 3
"""Numbers below which nothing is said."""
_AGAINST = -0.5
_APART = 0.9
_FACTOR = 2.5
_MOST = 0.7
_GROWN = 1.5
_ALONE = 0.99
_NO_GRAPH = LossGraph()
_FORWARDS, _PART = 4, 0.7
"""Forwards of a step whose gradients are to add up, and the size beside all of them of one that is
but a part: of several models by turns, as of a game, there are fewer."""
_MORE = 1.2
"""The size beside the layer's own of a gradient that has those of earlier backwards in it."""

CHANGED = Kind(
    "changed_gradient",
    "alert",
    "Something changes it after backward: look for hooks (register_hook), an autograd.Function of "
    "your own, and code that writes into .grad",
)
NOT_CLEARED = Kind(
    "gradients_not_cleared",
    "alert",
    "Call optimizer.zero_grad() once for each step, before its backward; where two models play "
    "against each other, each optimizer's own, as the backward of one leaves gradients in both",
)

CLEARED_BETWEEN = Kind(
    "cleared_between",
    "warning",
    "Call zero_grad() before the loop over micro-batches, not in it, so that their gradients add "
    "up; if each is a step of the optimizer's, call track() at each",
)
NOT_CLEARED_OF_SOME = Kind(
    "gradients_not_cleared",
    "alert",
    "Call zero_grad() of the optimizer that has these parameters, too, once for each step; if none "
    "has them, that is to be mended first",
)


def changed_gradients(evidence: Evidence) -> Iterator[Finding]:
    """Weights whose gradient is turned round or of another size; or all, of several steps."""
    every = [s for s in evidence.of_quantity("WeightGradAgreement") if len(s.values) >= _FEW]
    # A weight that is used twice has two gradients, of which each use makes one.
    again = {module.partition("@")[0] for module in evidence.modules if "@" in module}
    ways = {name for graph in evidence.logged.known_graphs for name in graph.several_ways}
    # Where a loss has derivatives of the model in it, those of each layer were read on the way.
    again |= {s.name for s in every} if _are_most(ways, every) else ways
    # And that of a closure is of its last call alone, where layers were read at all of them.
    cosines = [s for s in every if s.name not in again and s.name not in evidence.fitted]
    sizes = evidence.by_module("WeightGradExcess")
    summed = [s for s in cosines if _is_summed(s, sizes.get(s.module))]
    is_known = len(cosines) >= _FEW or any(_begins_alone(s, sizes[s.module]) for s in summed)
    if is_known and len(summed) >= _MOST * len(cosines):
        text = "the gradients of most weights have those of earlier backwards in them: they add up"
        yield NOT_CLEARED.at(summed[0], 0, text, "a cosine of 1", module="")
        return
    if _are_parts(cosines, sizes, evidence):
        text = (
            "the gradients of most weights are but a part of those that the "
            f"{evidence.forwards_per_step} forwards of a step make: they are cleared in between"
        )
        yield CLEARED_BETWEEN.at(cosines[0], 0, text, "those of all forwards", module="")
        return
    piled = [part for part in _parts(cosines, evidence) if _pile_up(part, sizes)]
    yield from (_not_cleared(part, evidence) for part in piled)
    told = {s.module for part in piled for s in part}
    yield from _changed([s for s in cosines if s.module not in told], sizes, evidence)


def _are_most(names: Collection[str], every: Sequence[Watched]) -> bool:
    return sum(s.name in names for s in every) > _MOST * len(every)


def _are_parts(cosines: list[Watched], sizes: Mapping[str, Watched], evidence: Evidence) -> bool:
    """True if most gradients lack what earlier forwards of the step add to them.

    Where a loss is of several forwards, some may be of steps that a task takes by itself.
    """
    is_part = [
        _usual(s) < _ALONE and _usual(sizes[s.module]) < _PART for s in cosines if s.module in sizes
    ]
    are_many = len(is_part) >= _FEW and sum(is_part) > _MOST * len(cosines)
    is_game = any(is_of_player(loss, evidence) for loss in evidence.logged.losses)
    graphs = [graph for graph in evidence.logged.known_graphs if graph != _NO_GRAPH]
    is_of_one = not graphs or any(graph.is_of_one_forward for graph in graphs)
    return are_many and evidence.forwards_per_step >= _FORWARDS and is_of_one and not is_game


def _parts(cosines: list[Watched], evidence: Evidence) -> list[list[Watched]]:
    """The weights of each group of the optimizers, and those of none; else by their first names."""
    groups = evidence.optimizer.groups
    if not groups:
        return [*grouped(cosines, lambda s: s.module.partition(".")[0]).values()]
    return [*grouped(cosines, lambda s: groups.get(s.module, (None,))[0]).values()]


def _pile_up(part: list[Watched], sizes: Mapping[str, Watched]) -> bool:
    """True if no gradient is its layer's own again after the first backward."""
    known = [(s, sizes[s.module]) for s in part if s.module in sizes]
    found = [(s, size) for s, size in known if len(size.values) >= _FEW]
    own = [_begins_alone(s, size) and (size.values[_FEW - 1 :] > _MORE).all() for s, size in found]
    return len(own) == len(part) and all(own)


def _not_cleared(part: list[Watched], evidence: Evidence) -> Finding:
    first = part[0]
    text = (
        f"the gradient of {names_of(part)} is the sum of all backwards so far: it is never "
        f"cleared, and others are{in_group(first.module, evidence)}"
    )
    return NOT_CLEARED_OF_SOME.at(first, 1, text, "the last backward alone", module=first.module)


def _changed(
    cosines: list[Watched], sizes: Mapping[str, Watched], evidence: Evidence
) -> Iterator[Finding]:
    excess = {s.module: _usual(sizes[s.module]) for s in cosines if s.module in sizes}
    # Gradients that are all 0 have no usual factor.
    common = _common([*excess.values()]) or np.nan
    # Where most gradients are not their layers' own, it is how one trains: by the gradient of a
    # gradient, or of copies of the weights, as of tasks that are learnt to learn.
    # Or a forward of the step has a backward to its input alone, as for adversarial samples.
    apart = [s.module for s in cosines if _usual(s) < _APART]
    are_few = len(apart) <= max(1, len(cosines) / 2)
    is_of_one = evidence.forwards_per_step <= 1
    for one in cosines:
        severity, factor = "alert", excess.get(one.module, np.nan) / common
        if _usual(one) < _AGAINST and (are_few or is_of_one):
            text = f"the gradient of {one.module!r} points against the one that its layer makes"
        elif _usual(one) > _APART and not 1 / _FACTOR < factor < _FACTOR and np.isfinite(factor):
            text = (
                f"the gradient of {one.module!r} is {factor:.3g} times the one that its layer makes"
            )
        elif one.module in apart and are_few and not _is_shared(one.module, evidence):
            text = f"the gradient of {one.module!r} is not the one that its layer makes"
            severity = "warning"  # a function may use the weight once more
        else:
            continue
        i = _first_apart(one, sizes.get(one.module), common)
        yield CHANGED.at(one, i, text, "a cosine of 1, and a factor of 1", severity=severity)


def _common(excess: list[float]) -> float:
    """The factor of all gradients, such as that of clipping: 1 where many are their layers' own."""
    own = [x for x in excess if abs(x - 1) < 1 - _ALONE]
    return 1.0 if len(own) >= max(1, len(excess) / _FEW) else _median(excess)


def _first_apart(cosine: Watched, size: Watched | None, common: float) -> int:
    """The first number of a cosine's series, or of its size's, that is not 1."""
    apart = ~(cosine.values > _ALONE)
    if size is not None and len(size.values) == len(apart):
        apart |= ~(np.abs(size.values / common - 1) < 1 - _ALONE)
    return int(np.argmax(apart))


def _is_shared(module: str, evidence: Evidence) -> bool:
    """True for a weight of two modules: it has the same norms twice."""
    own = evidence.parameters.weights.get(module)
    others = (s for s in evidence.parameters.weights.values() if s.module != module)
    return own is None or any(np.array_equal(own.values, s.values) for s in others)


def _is_summed(cosine: Watched, size: Watched | None) -> bool:
    """True if a gradient has others in it, or grows from that of one backward to that of many."""
    if size is None or len(size.values) < _FEW:
        return False
    is_mixed = _usual(cosine) < _APART and _usual(size) > _GROWN
    return is_mixed or bool(size.values[0] < _GROWN < median(size.last_half))


def _begins_alone(cosine: Watched, size: Watched) -> bool:
    """True if the first gradient is the layer's own, as nothing came before it."""
    return bool(min(cosine.values[0], size.values[0], 1 / max(size.values[0], 1e-30)) > _ALONE)


def _usual(one: Watched) -> float:
    # Behind a branch that begins at nothing the first gradient is 0, and has no direction.
    return _median(one.values, _FEW - 1)


def _median(values: Iterable[float], fewest: int = 1) -> float:
    """The median of finite numbers; NaN of too few."""
    finite = [x for x in values if np.isfinite(x)]
    return median(finite) if len(finite) >= fewest else np.nan
