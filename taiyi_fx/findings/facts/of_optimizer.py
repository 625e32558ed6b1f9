"""Facts about optimizers that no number tells: their groups' settings, and what these hold."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from taiyi_fx.findings.facts.of_model import own_parameters, owners_of

_Value = TypeVar("_Value")


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
        initial: The learning rate that a scheduler of torch took over from it, by which its factors
            multiply; 0 without one, and where another rate is to come, as a cycle's or that of
            weights that are averaged.
        peak: That maximum, which the rate is to come to: of `OneCycleLR`; 0 of others.
    """

    modules: tuple[str, ...]
    momentum: float
    maximizes: bool
    rule: str = ""
    dampening: float = 0.0
    second: float = 0.0
    epsilon: float = 0.0
    initial: float = 0.0
    peak: float = 0.0

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
    initial = 0.0 if group.keys() & {"max_lr", "swa_lr"} else _number(group.get("initial_lr"))
    of_steps = (momentum, is_uphill, rule, dampening, second, epsilon)
    peak = _number(group.get("max_lr"))
    return GroupSettings(tuple(names), *of_steps, initial=initial, peak=peak)


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
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            own = _state_of(optimizer, parameter) or {"step": 0}
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


def groups_of(
    modules: Mapping[str, Any], optimizers: Sequence[Any]
) -> dict[str, tuple[int, float]]:
    """The group of the optimizers that each module's own parameters are in, and its learning rate.

    Modules without parameters are left out, and those with parameters in several groups.

    Args:
        modules: The modules by name. A run is read without torch, hence `Any`.
        optimizers: Those that train the model, whose groups are counted through.
    """
    known: dict[int, tuple[int, float]] = {}
    for i, (_, group) in enumerate(_groups(optimizers)):
        if "lr" in group:
            known |= dict.fromkeys(map(id, group["params"]), (i, float(group["lr"])))
    return _of_one_value(modules, known)


def decays_of(modules: Mapping[str, Any], optimizers: Sequence[Any]) -> dict[str, float]:
    """The weight decay of the group that each module's own parameters are in, if it is one."""
    groups = (g for _, g in _groups(optimizers) if "weight_decay" in g)
    decays = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    return {name: float(decay) for name, decay in _of_one_value(modules, decays).items()}


def shrinkage_of(modules: Mapping[str, Any], optimizers: Sequence[Any]) -> dict[str, float]:
    """The share of each module's parameters that decay takes at a step, for a learning rate of 1.

    Of decay that is added to the parameters, as of AdamW, and of that of SGD, which momentum makes
    larger. What Adam makes of a decay within its gradient depends on that: such modules are left
    out, and those with parameters in groups of several decays.
    """
    shares = {id(p): _shrinkage(one, g) for one, g in _groups(optimizers) for p in g["params"]}
    return {name: share for name, share in _of_one_value(modules, shares).items() if share > 0}


def _groups(optimizers: Sequence[Any]) -> list[tuple[Any, Mapping[str, Any]]]:
    """All groups of some optimizers, each with its optimizer."""
    return [(optimizer, group) for optimizer in optimizers for group in optimizer.param_groups]


def _state_of(optimizer: Any, parameter: Any) -> Mapping[str, Any]:
    """The things an optimizer keeps of a parameter by names; none where it keeps a tensor alone."""
    state = getattr(optimizer, "state", {})
    kept = state.get(parameter) if isinstance(state, Mapping) else None
    return kept if isinstance(kept, Mapping) else {}


def _given_to(optimizers: Sequence[Any]) -> set[int]:
    """The ids of the parameters that some optimizers have."""
    return {id(p) for _, group in _groups(optimizers) for p in group["params"]}


def _of_one_value(modules: Mapping[str, Any], known: Mapping[int, _Value]) -> dict[str, _Value]:
    """The value that all of each module's own parameters have, by id, if it is one."""
    found: dict[str, _Value] = {}
    for name, module in modules.items():
        own = {known.get(id(parameter)) for parameter in own_parameters(module)}
        one = own.pop() if len(own) == 1 else None
        if one is not None:
            found[name] = one
    return found


def _shrinkage(optimizer: Any, group: Mapping[str, Any]) -> float:
    decay, momentum = group.get("weight_decay"), group.get("momentum", 0.0)
    if not isinstance(decay, (int, float)) or not isinstance(momentum, (int, float)):
        return 0.0
    kinds = {of.__name__ for of in type(optimizer).__mro__}
    if group.get("decoupled_weight_decay") or kinds & {"AdamW", "Lion", "Muon"}:
        return float(decay)
    return float(decay) / max(1 - momentum, 1e-3) if "SGD" in kinds else 0.0


def undecaying_moments_of(
    modules: Mapping[str, Any], optimizers: Sequence[Any]
) -> dict[str, tuple[str, float]]:
    """The modules whose second moments are in a format that cannot make them smaller.

    A factor of less than a quarter of the format's epsilon below 1 is rounded to 1, whatever
    number it multiplies. Of Adam and its like, and of RMSprop.

    Returns:
        The name of the format, and the factor, by the module's name.
    """
    found: dict[int, tuple[str, float]] = {}
    for one, group in _groups(optimizers):
        for parameter in group["params"]:
            kept = _undecaying(_state_of(one, parameter), group)
            if kept is not None:
                found[id(parameter)] = kept
    own = {name: [id(p) for p in own_parameters(module)] for name, module in modules.items()}
    return {name: found[ids[0]] for name, ids in own.items() if ids and ids[0] in found}


_EPSILONS = {"torch.bfloat16": 2.0**-7, "torch.float16": 2.0**-10}


def _undecaying(state: Mapping[str, Any], group: Mapping[str, Any]) -> tuple[str, float] | None:
    """The format of a parameter's second moment and its factor, if that is 1 for the format."""
    betas: Any = group.get("betas")
    is_adam = "exp_avg_sq" in state and isinstance(betas, (tuple, list))
    decay: Any = betas[1] if is_adam else group.get("alpha")
    dtype = str(getattr(state.get("exp_avg_sq", state.get("square_avg")), "dtype", ""))
    if not isinstance(decay, float) or not 0 < 1 - decay < _EPSILONS.get(dtype, 0.0) / 4:
        return None
    return dtype.removeprefix("torch."), decay


def left_out_of(
    modules: Mapping[str, Any], optimizers: Sequence[Any]
) -> tuple[frozenset[str], int]:
    """The modules with parameters to be trained that no optimizer has, and how many it has else.

    Nothing where optimizers have no parameter of the model, as of those that keep copies of them.
    """
    known, ids = _given_to(optimizers), owners_of(modules).keys()
    own = {name: own_parameters(module) for name, module in modules.items()}
    if not known & ids:
        return frozenset(), 0
    wanted = {name: [p for p in parameters if p.requires_grad] for name, parameters in own.items()}
    without = (name for name, ps in wanted.items() if ps and not {id(p) for p in ps} & known)
    return frozenset(without), len(known - ids)


def hidden_in(modules: Mapping[str, Any], optimizers: Sequence[Any]) -> dict[tuple[str, str], int]:
    """The modules that are kept in a list, tuple or dict of Python, which gradients reach though no
    optimizer has their parameters.

    A gradient stays once it came, as neither ``zero_grad()`` of an optimizer nor that of the model
    reaches it: whenever one looks, it is there. Nothing where optimizers have no parameter of the
    model, nor of what is frozen, as a teacher that is kept out of the ``state_dict`` so.

    Returns:
        How many there are, by the name of the module that keeps them, and that of its attribute.
    """
    given, own = _given_to(optimizers), owners_of(modules).keys()
    if not given & own:
        return {}
    found: dict[tuple[str, str], int] = {}
    for name, module in modules.items():
        for attribute, held in _attributes_of(module):
            parts = [part for part in _kept_in(held) if _is_pulled(part, given | own)]
            if parts:
                found[name, attribute] = len(parts)
    return found


def _attributes_of(module: Any) -> list[tuple[str, Any]]:
    """The attributes but the dicts in which torch sees what it holds, such as a new module."""
    of_torch = ("_modules", "_parameters", "_buffers")
    return [(name, held) for name, held in vars(module).items() if name not in of_torch]


def _kept_in(held: Any) -> list[Any]:
    """The modules in a list, tuple or dict of nothing else."""
    entries = [*held.values()] if isinstance(held, dict) else held
    if not isinstance(entries, (list, tuple)):
        return []
    return [*entries] if all(_is_module(entry) for entry in entries) else []


def _is_module(entry: Any) -> bool:
    return hasattr(type(entry), "named_modules")  # of what it is itself, it may answer anything


def _is_pulled(part: Any, known: Collection[int]) -> bool:
    """True for a module with parameters that have a gradient and are none of those known."""
    every = [p for p in part.parameters() if p.requires_grad]
    return bool(every) and all(id(p) not in known and p.grad is not None for p in every)


def shared_state_of(modules: Mapping[str, Any], optimizers: Sequence[Any]) -> dict[str, str]:
    """The names of what optimizers keep of parameters, and is the very memory of their gradients.

    Returns:
        The first of each module's own parameters, by the module's name.
    """
    owners, found = owners_of(modules), dict[str, str]()
    for one, group in _groups(optimizers):
        for parameter in group["params"]:
            memory = _memory_of(parameter.grad)
            kept = _state_of(one, parameter).items()
            shared = [name for name, held in kept if _memory_of(held) == memory]
            if memory and shared and id(parameter) in owners:
                found.setdefault(owners[id(parameter)], str(shared[0]))
    return found


def _memory_of(held: Any) -> int:
    """The address of a plain tensor's entries; 0 of all else."""
    is_plain = type(held).__name__ == "Tensor" and str(held.layout) == "torch.strided"
    return held.data_ptr() if is_plain else 0
