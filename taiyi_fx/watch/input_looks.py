"""Looks at the model's own inputs, in training and in evaluation."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from taiyi_fx.findings import (
    Distribution,
    FarEntry,
    GivenInputs,
    Interleaving,
    Repeats,
    ShownTokens,
)
from taiyi_fx.passes.probes.modes import is_traced, unseen
from taiyi_fx.warning import WarnOnce
from taiyi_fx.watch.input_numbers import (
    Look,
    distribution,
    furthest,
    interleaving,
    repeats,
    shown_tokens,
)

_T = TypeVar("_T")

_FEWEST = 16
"""Elements whose mean says something."""


class InputLooks:
    """The inputs of one model: of its first forward in each mode, and of ever rarer ones.

    Args:
        model: The model.
        strict: Raise what looking raises.
    """

    def __init__(self, model: nn.Module, *, strict: bool = False) -> None:
        self._model, self._strict = model, strict
        self._counts = {True: 0, False: 0}
        self._noted: dict[bool, dict[str, list[Look[Distribution]]]] = {True: {}, False: {}}
        self._far: dict[str, list[Look[FarEntry]]] = {}
        self._interleaving: dict[bool, dict[str, list[Look[Interleaving]]]] = {True: {}, False: {}}
        self._repeats: list[Look[Repeats]] = []
        self._shown: list[Look[ShownTokens]] = []
        self._warn = WarnOnce()

    def look_at(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Notes how the numbers of each input are distributed, at each power of two forwards.

        Args:
            args: The model's arguments.
            kwargs: Those given by name.

        Returns:
            True for a forward of training that was looked at.
        """
        is_training = self._model.training
        count = self._counts[is_training] + 1
        self._counts[is_training] = count
        if count & (count - 1):
            return False
        try:
            unseen(self._note, args, kwargs, is_training)
        except Exception as error:  # monitoring never ends a run: reported by name
            if self._strict:
                raise
            self._warn.of("inputs", f"how the model's inputs are distributed: {error!r}")
        return is_training

    def _note(self, args: tuple[Any, ...], kwargs: dict[str, Any], is_training: bool) -> None:
        if _holds_no_data():
            return
        names = argument_names(self._model)
        known = {names[i] if i < len(names) else str(i): value for i, value in enumerate(args)}
        known |= kwargs
        with torch.no_grad():
            for name, value in known.items():
                if _is_plain(value) and value.is_floating_point() and value.numel() >= _FEWEST:
                    self._note_one(name, value, is_training)
            tensors = [one for one in tree_leaves(known) if isinstance(one, Tensor)]
            is_plain = all(map(_is_plain, tensors))  # others are told what they are asked
            rows = [one for one in tensors if one.ndim] if is_training and is_plain else []
            if rows:
                _add(self._repeats, repeats(rows))
            if is_training and is_plain and _is_of_transformers(self._model):
                self._note_mask(known.get("input_ids"), known.get("attention_mask"))

    def _note_one(self, name: str, value: Tensor, is_training: bool) -> None:
        _add(self._noted[is_training].setdefault(name, []), distribution(value))
        _add(self._interleaving[is_training].setdefault(name, []), interleaving(value))
        if is_training:
            _add(self._far.setdefault(name, []), furthest(value))

    def _note_mask(self, tokens: Any, mask: Any) -> None:
        if isinstance(tokens, Tensor) and isinstance(mask, Tensor):
            _add(self._shown, shown_tokens(tokens, mask))

    def read(self) -> GivenInputs:
        """All that is known; the host waits for the device."""
        return GivenInputs(
            trained=_read(self._noted[True]),
            evaluated=_read(self._noted[False]),
            far=_read(self._far),
            repeats=[one.read() for one in self._repeats],
            interleaving={mode: _read(of) for mode, of in self._interleaving.items()},
            shown=[one.read() for one in self._shown],
        )


def _add(looks: list[Look[_T]], look: Look[_T] | None) -> None:
    if look is not None:
        looks.append(look)


def _read(looks: Mapping[str, Sequence[Look[_T]]]) -> dict[str, list[_T]]:
    return {name: [one.read() for one in every] for name, every in looks.items() if every}


def _is_plain(value: Any) -> bool:
    """True for a dense tensor that holds data."""
    if type(value) is not Tensor or value.is_nested or value.is_quantized:
        return False
    return value.layout == torch.strided and not value.is_meta


def _is_of_transformers(model: nn.Module) -> bool:
    """True where an `attention_mask` is known to show with 1: others may hide with it."""
    return any(of.__module__.startswith("transformers.models.") for of in type(model).__mro__)


def argument_names(model: nn.Module) -> list[str]:
    """The names of the arguments of a model's forward in their order, as far as they have one."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in parameters if one.kind in named]


def _holds_no_data() -> bool:
    """True where tensors stand for others: in traces, transforms, and graphs that CUDA captures."""
    if is_traced() or torch._C._is_tracing() or torch._C._are_functorch_transforms_active():
        return True
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
