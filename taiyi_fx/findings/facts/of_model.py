"""Facts about a model that no number tells: the optimizer's groups, forward hooks, modes, axes, and
what is repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import permutations
from typing import Any, TypeVar

_Value = TypeVar("_Value")
_MATRIX = 2
_COUPLINGS, _SMALL = 3, 4096
"""Modules of one class with a mask, and entries of one that is looked at."""


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


def _given_to(optimizers: Sequence[Any]) -> set[int]:
    """The ids of the parameters that some optimizers have."""
    return {id(p) for _, group in _groups(optimizers) for p in group["params"]}


def _of_one_value(modules: Mapping[str, Any], known: Mapping[int, _Value]) -> dict[str, _Value]:
    """The value that all of each module's own parameters have, by id, if it is one."""
    found: dict[str, _Value] = {}
    for name, module in modules.items():
        own = {known.get(id(parameter)) for parameter in _own_parameters(module)}
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
            kept = _undecaying(getattr(one, "state", {}).get(parameter) or {}, group)
            if kept is not None:
                found[id(parameter)] = kept
    own = {name: [id(p) for p in _own_parameters(module)] for name, module in modules.items()}
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
    own = {name: _own_parameters(module) for name, module in modules.items()}
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


def frozen_of(modules: Mapping[str, Any]) -> frozenset[str]:
    """The modules with parameters of their own of which none requires a gradient."""
    own = {name: _own_parameters(module) for name, module in modules.items()}
    return frozenset(n for n, ps in own.items() if ps and not any(p.requires_grad for p in ps))


def owners_of(modules: Mapping[str, Any]) -> dict[int, str]:
    """The first module that has each parameter for its own, by the parameter's id."""
    found: dict[int, str] = {}
    for name, module in modules.items():
        for parameter in _own_parameters(module):
            found.setdefault(id(parameter), name)
    return found


def frozen_adapters_of(modules: Mapping[str, Any]) -> tuple[str, ...]:
    """The modules with parameters of LoRA, if none of these are to be trained though others are.

    They are told by their names, or by being two small matrices whose product has the shape of a
    weight within the same module.
    """
    every = {
        f"{name}.{own}": (name, parameter.requires_grad)
        for name, module in modules.items()
        for own, parameter in module._parameters.items()
        if parameter is not None
    }
    factors = {f"{name}.{own}" for name, module in modules.items() for own in _factors(module)}
    adapters = {
        path: known for path, known in every.items() if "lora" in path.lower() or path in factors
    }
    trained = {path for path, (_, is_trained) in every.items() if is_trained}
    if not trained or not trained.isdisjoint(adapters):
        return ()
    return tuple(dict.fromkeys(name for name, _ in adapters.values()))


def _factors(module: Any) -> set[str]:
    """The names of a module's own matrices that are the factors of a change of a weight in it."""
    own = {name: _matrix(p) for name, p in module._parameters.items() if _matrix(p)}
    shapes = {_matrix(part._parameters.get("weight")) for part in _parts(module)}
    shapes |= {shape[::-1] for shape in shapes}
    return {
        name
        for (a, first), (b, second) in permutations(own.items(), 2)
        if first[1] == second[0] < min(first[0], second[1]) and (first[0], second[1]) in shapes
        for name in (a, b)
    }


def _matrix(parameter: Any) -> tuple[int, ...]:
    """The shape of a matrix; empty of others, and of one that has no shape yet."""
    if parameter is None or hasattr(type(parameter), "cls_to_become"):
        return ()
    return tuple(parameter.shape) if len(parameter.shape) == _MATRIX else ()


def batch_axes_of(modules: Mapping[str, Any]) -> dict[str, int]:
    """The axis that each layer with a ``batch_first`` takes for that of the batch."""
    own = {name: vars(module).get("batch_first") for name, module in modules.items()}
    return {name: 0 if first else 1 for name, first in own.items() if isinstance(first, bool)}


def evaluates(modules: Mapping[str, Any]) -> str:
    """The class of a dropout or BatchNorm in a model of which nothing is in training mode.

    Empty if something is, or there is none.
    """
    if any(module.training for module in modules.values()):
        return ""
    return next((name for m in modules.values() if (name := _differing(m))), "")


def _differing(module: Any) -> str:
    """The class of a module that acts otherwise in training; else empty."""
    name, own = type(module).__name__, vars(module)
    drops = "Dropout" in name and isinstance(own.get("p"), float) and own["p"] > 0
    has_statistics = "BatchNorm" in name and module._buffers.get("running_mean") is not None
    return name if drops or has_statistics else ""


def hooks_of(modules: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names of the forward hooks of each module that has any, and of those before forward."""
    found: dict[str, list[str]] = {}
    for name, module in modules.items():
        # As torch has no other way to see them.
        hooks = [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
        if hooks:
            found[name] = [getattr(hook, "__qualname__", type(hook).__name__) for hook in hooks]
    return found


def repeated_in(modules: Mapping[str, Any]) -> dict[str, int]:
    """The number of entries that are one and the same module with parameters, by their list's name.

    Of `ModuleList`, `ModuleDict`, `Sequential` and other modules that hold others under numbers or
    names of their own; an activation that stands at many places holds nothing.
    """
    found: dict[str, int] = {}
    for name, module in modules.items():
        counts = Counter(id(entry) for entry in _parts(module) if _has_parameters(entry))
        if counts and max(counts.values()) > 1:
            found[name] = max(counts.values())
    return found


def same_masks_in(modules: Mapping[str, Any]) -> dict[str, int]:
    """The number of modules of one class whose own mask of features is the same, by the first.

    Of masks of 0 and 1 along one axis, as the couplings of a flow have, which are to take turns.
    """
    masks: dict[type, list[tuple[str, tuple[float, ...]]]] = {}
    for name, module in modules.items():
        for own, buffer in module._buffers.items():
            if "mask" in own and (entries := _of_zeros_and_ones(buffer)):
                masks.setdefault(type(module), []).append((name, entries))
    return {
        every[0][0]: len(every)
        for every in masks.values()
        if len(every) >= _COUPLINGS and len({entries for _, entries in every}) == 1
    }


def _of_zeros_and_ones(buffer: Any) -> tuple[float, ...]:
    """The entries of a small mask along one axis that has both; empty of others."""
    if buffer is None or buffer.device.type != "cpu" or not 1 < buffer.numel() <= _SMALL:
        return ()
    if max(buffer.shape) != buffer.numel():
        return ()
    entries = tuple(map(float, buffer.flatten().tolist()))
    return entries if set(entries) == {0.0, 1.0} else ()


# As torch holds them: a class may have a `parameters` of its own, and none of its code is run.
def _own_parameters(module: Any) -> list[Any]:
    return [p for p in module._parameters.values() if p is not None]


def _parts(module: Any) -> list[Any]:
    return [part for part in module._modules.values() if part is not None]


def _has_parameters(module: Any) -> bool:
    seen, left = set[int](), [module]
    while left:
        one = left.pop()
        if _own_parameters(one):
            return True
        seen.add(id(one))
        left += [part for part in _parts(one) if id(part) not in seen]
    return False
