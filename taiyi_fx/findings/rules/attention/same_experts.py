"""Experts that stay the same, and routers that the task does not teach."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from taiyi_fx.findings.blocks import common_block
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.watched import Watched, grouped, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FEW = 3

SAME_WEIGHTS = Kind(
    "same_weights",
    "alert",
    "Look for what copies one into the others at each step, such as a load_state_dict or an "
    "average of their weights: each gets another gradient, and should go its own way",
)
UNTAUGHT_ROUTER = Kind(
    "untaught_router",
    "warning",
    "Multiply what the experts return by the router's weights as they are, without detach, argmax "
    "or no_grad on the way: the loss that balances the experts alone teaches no choice",
)


def same_weights(evidence: Evidence) -> Iterator[Finding]:
    """Modules of one role whose weights stay the same, to the last bit, by other gradients.

    Weights that begin as copies part at the first step, and one weight of several modules has one
    gradient.
    """
    every = (
        s for s in evidence.parameters.weights.values() if len(s.values) >= STEPS and not s.call
    )
    moved = (s for s in every if s.values[-1] != s.values[0])
    for group in grouped(moved, _numbers).values():
        gradients = {g.values.tobytes() for s in group if (g := _gradient(s, evidence)) is not None}
        if len(group) >= _FEW and len(gradients) == len(group):
            text = (
                f"the weights of {names_of(group)} are the same at all steps, though each has "
                "another gradient"
            )
            module = common_block([one.module for one in group])
            yield SAME_WEIGHTS.at(group[0], 0, text, "weights that part", module=module)
            return


def _numbers(s: Watched) -> Hashable:
    return s.role, s.quantity, s.steps.tobytes(), s.values.tobytes()


def _gradient(weight: Watched, evidence: Evidence) -> Watched | None:
    gradient = evidence.parameters.weight_gradients.get(weight.module)
    return gradient if gradient is not None and np.any(gradient.values > 0) else None


def untaught_routers(evidence: Evidence) -> Iterator[Finding]:
    """Routers with a gradient, of which the cross entropy of a loss does not depend.

    While it depends on the experts that they choose.
    """
    routers = dict.fromkeys(s.name for s in evidence.of_quantity("RouterEntropy"))
    for loss, graph in evidence.logged.graphs:
        reached = graph.reached
        for name in routers:
            own = [s for s in evidence.parameters.weight_gradients.values() if _is_in(s.name, name)]
            around = name.rpartition(".")[0]
            experts = {other for other in reached if _is_in(other, around)}
            is_untaught = own and not any(s.name in reached for s in own)
            if is_untaught and experts and any((s.values > 0).any() for s in own):
                text = (
                    f"{loss.quantity!r} depends on the experts of {around!r}, and not on {name!r}, "
                    "which chooses them: it learns by other terms alone"
                )
                yield UNTAUGHT_ROUTER.at(own[0], 0, text, "a gradient of the task", module=name)
                return


def _is_in(module: str, around: str) -> bool:
    return module == around or module.startswith(f"{around}.")
