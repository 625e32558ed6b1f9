"""Looks at the model's own inputs, in training and in evaluation."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from taiyi_fx.findings import Distribution, FarEntry, GivenInputs
from taiyi_fx.passes.probes.modes import is_traced, unseen
from taiyi_fx.reductions.sums import wide
from taiyi_fx.warning import WarnOnce

_MOST = 1_000_000
"""Elements of an input that are looked at."""
_FEWEST = 16
"""Elements whose mean says something."""
_TABLE = 2
"""Axes of a table: samples, and their entries."""
_ROWS, _ENTRIES = 32, 4096
"""Samples of a table by which the spread of an entry is known, and its largest width."""


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
        self._far: dict[str, list[Tensor]] = {}
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
        if _holds_no_data():
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
        is_table = value.ndim == _TABLE and value.shape[1] <= _ENTRIES
        if known is self._noted[True] and is_table and len(value) >= _ROWS:
            self._far.setdefault(name, []).append(_furthest(value[:rows].to(wide(value.device))))

    def read(self) -> GivenInputs:
        """All that is known; the host waits for the device."""
        trained, evaluated = (
            dict(_read(self._noted[is_training])) for is_training in (True, False)
        )
        far = {name: [_far_entry(one) for one in _on_host(of)] for name, of in self._far.items()}
        return GivenInputs(trained, evaluated, far)


def _furthest(table: Tensor) -> Tensor:
    """The entry that is the furthest from all others in several samples, as numbers of one tensor.

    Of each entry the samples that have its least value, or its largest, are put beside all others:
    of these the spread is taken.
    """
    sides = torch.stack([table, -table])  # the least of the second is the largest
    ends = sides.amin(1)
    has_it = sides == ends[:, None]
    count, rows = has_it.sum(1), len(table)
    others = sides.masked_fill(has_it, 0)
    left = (rows - count).clamp(min=1)
    mean = others.sum(1) / left
    squares = (others - mean[:, None]).masked_fill(has_it, 0).square().sum(1)
    gap = sides.masked_fill(has_it, torch.inf).amin(1) - ends
    distance = gap / (squares / left).sqrt()
    is_some = (count > 1) & (2 * count <= rows) & (squares > 0) & distance.isfinite()
    distance = distance.where(is_some, 0)
    furthest = distance.flatten().argmax()
    side, entry = furthest // table.shape[1], furthest % table.shape[1]
    value = ends[side, entry] * (1 - 2 * side)
    return torch.stack([entry, value, count[side, entry] / rows, distance[side, entry]])


def _far_entry(numbers: Tensor) -> FarEntry:
    entry, value, share, distance = numbers.tolist()
    return FarEntry(int(entry), value, share, distance)


def _on_host(numbers: list[Tensor]) -> list[Tensor]:
    """The same on the host, for which it waits but once."""
    numbers[:] = [one.cpu() for one in numbers]
    return numbers


def _read(noted: dict[str, list[Tensor]]) -> Iterator[tuple[str, list[Distribution]]]:
    for name, numbers in noted.items():
        yield name, [Distribution(*one.tolist()) for one in _on_host(numbers)]


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


def _holds_no_data() -> bool:
    """True where tensors stand for others: in traces, transforms, and graphs that CUDA captures."""
    if is_traced() or torch._C._is_tracing() or torch._C._are_functorch_transforms_active():
        return True
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
