"""Looks at the model's own inputs, in training and in evaluation."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from taiyi_fx.findings import Distribution, GivenInputs
from taiyi_fx.passes.probes.modes import is_traced, unseen
from taiyi_fx.warning import WarnOnce

_MOST = 1_000_000
"""Elements of an input that are looked at."""
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
        self._noted: dict[bool, dict[str, list[Tensor]]] = {True: {}, False: {}}
        self._warn = WarnOnce()

    def look_at(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Notes how the numbers of each input are distributed, at each power of two forwards.

        Args:
            args: The model's arguments.
            kwargs: Those given by name.
        """
        is_training = self._model.training
        count = self._counts[is_training] + 1
        self._counts[is_training] = count
        if count & (count - 1):
            return
        try:
            unseen(self._note, args, kwargs, is_training)
        except Exception as error:  # monitoring never ends a run: reported by name
            if self._strict:
                raise
            self._warn.of("inputs", f"how the model's inputs are distributed: {error!r}")

    def _note(self, args: tuple[Any, ...], kwargs: dict[str, Any], is_training: bool) -> None:
        if is_traced() or torch._C._is_tracing() or _is_captured():
            return
        names = _names_of(self._model)
        known = self._noted[is_training]
        with torch.no_grad():
            for i, value in enumerate(args):
                self._note_one(names[i] if i < len(names) else str(i), value, known)
            for name, value in kwargs.items():
                self._note_one(name, value, known)

    def _note_one(self, name: str, value: Any, known: dict[str, list[Tensor]]) -> None:
        if not _is_plain(value) or value.numel() < _FEWEST:
            return
        rows = max(1, _MOST // max(1, value[0].numel())) if value.ndim > 1 else _MOST
        variance, mean = torch.var_mean(value[:rows].float(), correction=0)
        known.setdefault(name, []).append(torch.stack([mean, variance.sqrt()]))

    def read(self) -> GivenInputs:
        """All that is known; the host waits for the device."""
        trained, evaluated = (
            dict(_read(self._noted[is_training])) for is_training in (True, False)
        )
        return GivenInputs(trained, evaluated)


def _read(noted: dict[str, list[Tensor]]) -> Iterator[tuple[str, list[Distribution]]]:
    for name, numbers in noted.items():
        numbers[:] = [one.cpu() for one in numbers]  # each waits but once
        yield name, [Distribution(*one.tolist()) for one in numbers]


def _is_plain(value: Any) -> bool:
    """True for a dense tensor of floating point that holds data."""
    if type(value) is not Tensor or not value.is_floating_point() or value.is_nested:
        return False
    return value.layout == torch.strided and not value.is_meta


def _names_of(model: nn.Module) -> list[str]:
    """The names of a forward's arguments in their order, as far as they have one."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in parameters if one.kind in named]


def _is_captured() -> bool:
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
