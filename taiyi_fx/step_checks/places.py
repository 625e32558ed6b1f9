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
    """A model asked for the next token whose output at a place changes with later ones.

    Raises:
        Untried: It is not asked for the next token.
    """
    trial = trial.evaluating()
    targets = _targets(trial)
    call = outermost(trial)
    name = _next_tokens(call, targets)
    tokens = call.given.tensors()[name]
    places = tokens.shape[1]
    first = places // 2
    other = _others(tokens)
    other[:, :first] = tokens[:, :first]
    before = trial.called_again(call)
    after = trial.called_again(call, call.given.replaced({name: other}))

    def is_right(x: Tensor, y: Tensor) -> bool:
        if not _has_places(x, tokens.shape) or x.shape != y.shape:
            return True
        return are_close(x[:, :first], y[:, :first], trial.tolerance)

    if all(map(is_right, before[-1].outputs, after[-1].outputs)):
        return
    blame = first_wrong(before, after, is_right)
    text = (
        f"the targets are the next tokens, and the output at places before {first} changes with "
        f"the tokens from there on; {blame}"
    )
    yield SEEN_FUTURE.of(blame.module, float(first), text)


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


def _others(x: Tensor) -> Tensor:
    """Other values of the same kind, at each place."""
    if x.is_floating_point():
        return x.flip(1) + x.std()
    present = x.unique()
    return present[(torch.searchsorted(present, x) + 1) % len(present)]


def _has_places(x: Tensor, shape: Any) -> bool:
    return tuple(x.shape[:2]) == tuple(shape[:2])


class _CrossEntropies(TorchFunctionMode):
    """Takes down the targets of cross entropies."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        if func in (F.cross_entropy, F.nll_loss):
            target = given.get("target", args[1] if len(args) > 1 else None)
            if isinstance(target, Tensor) and not target.is_floating_point():
                self.targets.append(target.detach().clone())
        return func(*args, **given)


def _targets(trial: Trial) -> list[Tensor]:
    mode = _CrossEntropies()
    trial.run(within=mode)
    if not mode.targets:
        raise Untried("there is no cross entropy of classes")
    return mode.targets


def _next_tokens(call: Call, targets: list[Tensor]) -> str:
    """The argument whose next values are the targets."""
    for name, x in call.given.tensors().items():
        is_tokens = x.ndim == 2 and x.dtype in (torch.int64, torch.int32) and x.shape[1] > 3
        if is_tokens and any(_are_next(x, target) for target in targets):
            return name
    raise Untried("the targets are not the next tokens of the input")


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
