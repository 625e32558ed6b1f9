"""Settings of the optimizers' groups that no number tells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class GroupSettings(NamedTuple):
    """Settings of one group of parameters.

    Attributes:
        modules: The modules with parameters in it.
        momentum: The share of a step that goes on in the next: ``momentum``, or the first of
            ``betas``; 0 of others.
        maximizes: True if its steps go uphill.
        rule: ``"adam"`` for Adam and its like, whose steps are about as large as the learning rate
            at most, whatever the gradients are; ``"sgd"`` for SGD; ``"lbfgs"`` for L-BFGS, whose
            steps are as long as it guesses by the several backwards of its closure, and which ends
            by itself; empty for others.
        dampening: The share of each gradient that momentum leaves out, of SGD; 0 of others.
        epsilon: What Adam's rule adds to the root of the second moment; 0 of others.
        second: The second of ``betas``, by which squares of gradients are averaged; 0 of others.
    """

    modules: tuple[str, ...]
    momentum: float
    maximizes: bool
    rule: str = ""
    dampening: float = 0.0
    second: float = 0.0
    epsilon: float = 0.0

    @property
    def most_rates(self) -> float:
        """The most learning rates that a step of Adam's rule is, whatever gradients came before.

        By Cauchy and Schwarz: the averages of gradients and of squares weigh the same gradients,
        so many steps ago, by powers of the two betas. There is no such number where the square of
        the first is not below the second; for the usual betas it is 7.3.
        """
        if self.momentum**2 >= self.second or self.second >= 1:
            return math.inf
        left = (1 - self.second) * (1 - self.momentum**2 / self.second)
        return (1 - self.momentum) / math.sqrt(left)


def group_settings_of(
    modules: Mapping[str, Any], optimizers: Sequence[Any]
) -> tuple[GroupSettings, ...]:
    """The settings of each group of some optimizers, in order.

    Args:
        modules: The modules by name. A run is read without torch, hence `Any`.
        optimizers: Those that train the model, whose groups are counted through.
    """
    every = [(one, group) for one in optimizers for group in one.param_groups]
    return tuple(_settings(one, group, modules) for one, group in every)


_BOUNDED = frozenset({"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Lion"})


def _settings(
    optimizer: Any, group: Mapping[str, Any], modules: Mapping[str, Any]
) -> GroupSettings:
    own = {id(parameter) for parameter in group["params"]}
    names = (n for n, m in modules.items() if own & {id(p) for p in m._parameters.values()})
    betas = group.get("betas")
    first = betas[0] if isinstance(betas, (tuple, list)) and betas else group.get("momentum")
    second = betas[1] if isinstance(betas, (tuple, list)) and len(betas) > 1 else None
    numbers = (_number(of) for of in (first, group.get("dampening"), second))
    momentum, dampening, second = numbers
    is_uphill, rule = bool(group.get("maximize")), _rule(optimizer)
    epsilon = _number(group.get("eps")) if rule == "adam" else 0.0
    return GroupSettings(tuple(names), momentum, is_uphill, rule, dampening, second, epsilon)


def _number(setting: Any) -> float:
    return float(setting) if isinstance(setting, (int, float)) else 0.0


def _rule(optimizer: Any) -> str:
    kinds = {of.__name__ for of in type(optimizer).__mro__}
    if kinds & _BOUNDED:
        return "adam"
    return next((name for name in ("sgd", "lbfgs") if name.upper() in kinds), "")


def step_counts_of(modules: Mapping[str, Any], optimizers: Sequence[Any]) -> dict[str, int]:
    """The steps that optimizers such as Adam count of each module's parameters: the most of any.

    0 of those that they have no state of. Modules with a count on another device are left out, as
    to read one waits, and those with one that is no number.

    Args:
        modules: The modules by name.
        optimizers: Those that train the model.
    """
    counts: dict[int, int | None] = {}
    for optimizer in optimizers:
        if _rule(optimizer) != "adam":
            continue
        state = getattr(optimizer, "state", {})
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            own = state.get(parameter) or {"step": 0}
            count: Any = own.get("step")  # Lion, as it is mostly written, counts none
            is_here = getattr(getattr(count, "device", None), "type", "") == "cpu"
            is_number = isinstance(count, (int, float)) or (is_here and count.numel() == 1)
            counts[id(parameter)] = int(count) if is_number else None
    found: dict[str, int] = {}
    for name, module in modules.items():
        own = [counts[id(p)] for p in module._parameters.values() if id(p) in counts]
        known = [count for count in own if count is not None]
        if known and len(known) == len(own):
            found[name] = max(known)
    return found
