"""Places of a sequence: whether an output sees what comes later, or what is padding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from taiyi_fx.findings.finding import Finding
from taiyi_fx.step_checks.axes import are_close
from taiyi_fx.step_checks.batch import copied
from taiyi_fx.step_checks.blame import Blame, first_wrong
from taiyi_fx.step_checks.calls import Call
from taiyi_fx.step_checks.kinds import SEEN_FUTURE, SEEN_PADDING
from taiyi_fx.step_checks.rows import outermost
from taiyi_fx.step_checks.trial import Trial
from taiyi_fx.step_checks.untried import Untried

_MASKS = re.compile(r"mask|pad|valid|keep")
_LENGTHS = re.compile(r"len")
_IGNORED = -100
_ALIKE = 0.95
"""The part of targets that are the next tokens, where a model is asked for these."""


def future_findings(trial: Trial) -> Iterator[Finding]:
    """A model asked for the next token, or value, whose output at a place changes with later ones.

    Raises:
        Untried: It is not asked for these.
    """
    trial = trial.evaluating()
    targets = _targets(trial)
    call = outermost(trial)
    asked = _asked(call, targets)
    values = call.given.tensors()[asked.name]
    places = values.shape[asked.axis]
    first = places // 2
    kept = (*[slice(None)] * asked.axis, slice(first))
    other = _others(values, asked.axis)
    other[kept] = values[kept]
    before = trial.called_again(call)
    after = trial.called_again(call, call.given.replaced({asked.name: other}))

    def is_right(x: Tensor, y: Tensor) -> bool:
        has_places = x.ndim > asked.axis and x.shape[asked.axis] == places
        if not has_places or len(x) != len(values) or x.shape != y.shape:
            return True
        return are_close(x[kept], y[kept], trial.tolerance)

    if all(map(is_right, before[-1].outputs, after[-1].outputs)):
        return
    blame = first_wrong(before, after, is_right)
    text = (
        f"the targets are the next {asked.kind}, and the output at places before {first} changes "
        f"with the {asked.kind} from there on; {blame}"
    )
    yield SEEN_FUTURE.of(blame.module, float(first), text)


class _Asked(NamedTuple):
    """The argument whose next values a model is asked for.

    Attributes:
        name: The argument.
        axis: That of its places.
        kind: The things that are at places.
    """

    name: str
    axis: int = 1
    kind: str = "tokens"


def padding_findings(trial: Trial) -> Iterator[Finding]:
    """A model whose output changes with what its mask, or its lengths, leave out.

    Raises:
        Untried: It is given neither.
    """
    trial = trial.evaluating()
    call = outermost(trial)
    hidden = _hidden(call)
    before = trial.called_again(call)
    ways = [hidden.places, ~hidden.places] if hidden.may_be_turned else [hidden.places]
    blames = [_seen(trial, call, before, hidden.values, places) for places in ways]
    if not all(blames):
        return
    blame = blames[0]
    assert blame is not None
    share = hidden.places.double().mean().item()
    text = (
        f"the output changes with what is left out by {hidden.name!r}, {share:.0%} of the places; "
        f"{blame}"
    )
    yield SEEN_PADDING.of(blame.module, share, text)


class _Hidden(NamedTuple):
    """The places that a model is told to leave out.

    Attributes:
        name: The argument that says so.
        values: The argument with the places.
        places: True where there is padding.
        may_be_turned: Whether the argument may mean the opposite.
    """

    name: str
    values: str
    places: Tensor
    may_be_turned: bool


def _hidden(call: Call) -> _Hidden:
    tensors = call.given.tensors()
    for name, mask in tensors.items():
        values = _with_places(tensors, name, tuple(mask.shape))
        if mask.ndim == 2 and values and _MASKS.search(name) and _is_binary(mask):
            return _Hidden(name, values, mask == 0, may_be_turned=True)
        if mask.ndim == 1 and _LENGTHS.search(name) and not mask.is_floating_point():
            for other, x in tensors.items():
                if x.ndim > 1 and len(x) == len(mask) and 0 < mask.min() < x.shape[1] >= mask.max():
                    places = torch.arange(x.shape[1], device=mask.device) >= mask[:, None]
                    return _Hidden(name, other, places.to(x.device), may_be_turned=False)
    raise Untried("the model is given no mask and no lengths that leave something out")


def _with_places(tensors: Mapping[str, Tensor], mask: str, shape: tuple[int, ...]) -> str:
    fits = (n for n, x in tensors.items() if n != mask and not _MASKS.search(n))
    return next(
        (n for n in fits if tuple(tensors[n].shape[:2]) == shape and _varies(tensors[n])), ""
    )


def _varies(x: Tensor) -> bool:
    return bool((x != x.flatten()[0]).any())


def _is_binary(x: Tensor) -> bool:
    return bool(((x == 0) | (x == 1)).all()) and bool((x == 0).any()) and bool((x == 1).any())


def _seen(trial: Trial, call: Call, before: list[Call], name: str, hidden: Tensor) -> Blame | None:
    """The module whose output at other places changes with those that are hidden; None if none."""
    values = call.given.tensors()[name]
    where = hidden.reshape(*hidden.shape, *[1] * (values.ndim - 2))
    changed = torch.where(where, _others(values), values)
    after = trial.called_again(call, call.given.replaced({name: changed}))

    def is_right(x: Tensor, y: Tensor) -> bool:
        if x.shape != y.shape:
            return False
        if _has_places(x, hidden.shape):
            return are_close(x[~hidden], y[~hidden], trial.tolerance)
        is_of_samples = x.ndim > 0 and len(x) == len(hidden) and hidden.shape[1] not in x.shape[1:]
        return not is_of_samples or are_close(x, y, trial.tolerance)

    if all(map(is_right, before[-1].outputs, after[-1].outputs)):
        return None
    return first_wrong(before, after, is_right)


def _others(x: Tensor, axis: int = 1) -> Tensor:
    """Other values of the same kind, at each place."""
    if x.is_floating_point():
        return x.flip(axis) + x.std()
    present = x.unique()
    return present[(torch.searchsorted(present, x) + 1) % len(present)]


def _has_places(x: Tensor, shape: Any) -> bool:
    return tuple(x.shape[:2]) == tuple(shape[:2])


class _Targets(NamedTuple):
    """The tensors that losses compare outputs with.

    Attributes:
        classes: Those of cross entropies.
        values: Those that something with a gradient is subtracted from, or is less.
    """

    classes: list[Tensor]
    values: list[Tensor]


class _Comparing(TorchFunctionMode):
    """Takes down what outputs are compared with."""

    def __init__(self) -> None:
        super().__init__()
        self.targets = _Targets([], [])

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        pair = (*args, *(given[name] for name in ("input", "other", "target") if name in given))[:2]
        tensors = [x for x in pair if isinstance(x, Tensor)]
        constants = [x for x in tensors if not x.requires_grad]
        if func in _OF_CLASSES:
            self.targets.classes.extend(copied(x) for x in constants if not x.is_floating_point())
        if func in _OF_VALUES and len(constants) < len(tensors):
            self.targets.values.extend(copied(x) for x in constants if x.is_floating_point())
        return func(*args, **given)


_OF_CLASSES = frozenset((F.cross_entropy, F.nll_loss))
_DIFFERENCES = (torch.sub, Tensor.sub, Tensor.__sub__, Tensor.__rsub__)
_OF_VALUES = frozenset((*_DIFFERENCES, F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss))


def _targets(trial: Trial) -> _Targets:
    mode = _Comparing()
    trial.run(within=mode)
    if not (mode.targets.classes or mode.targets.values):
        raise Untried("there is no cross entropy of classes, and no difference from a target")
    return mode.targets


def _asked(call: Call, targets: _Targets) -> _Asked:
    """The argument whose next tokens, or values, are the targets."""
    for name, x in call.given.tensors().items():
        is_tokens = x.ndim == 2 and x.dtype in (torch.int64, torch.int32) and x.shape[1] > 3
        if is_tokens and any(_are_next(x, target) for target in targets.classes):
            return _Asked(name)
        for axis in range(1, x.ndim) if x.is_floating_point() else ():
            if any(_are_next_values(x, target, axis) for target in targets.values):
                return _Asked(name, axis, "values")
    raise Untried("the targets are not the next tokens of the input, nor its next values")


def _are_next_values(x: Tensor, target: Tensor, axis: int) -> bool:
    places = x.shape[axis] - 1
    if target.shape != x.shape or places < 3:
        return False
    following, wanted = x.narrow(axis, 1, places), target.narrow(axis, 0, places)
    return torch.equal(wanted, following) and not torch.equal(wanted, x.narrow(axis, 0, places))


def _are_next(tokens: Tensor, target: Tensor) -> bool:
    if target.numel() % len(tokens):
        return False
    by_sample = target.reshape(len(tokens), -1)
    places = min(by_sample.shape[1], tokens.shape[1] - 1)
    wanted, following = by_sample[:, :places], tokens[:, 1 : places + 1]
    counts = wanted != _IGNORED
    if places < tokens.shape[1] // 2 or not counts.any():
        return False
    present = tokens[:, :places]
    is_next = (wanted == following)[counts].double().mean().item()
    return is_next >= _ALIKE > (wanted == present)[counts].double().mean().item()
