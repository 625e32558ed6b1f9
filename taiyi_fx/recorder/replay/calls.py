"""A call of the model as a step made it: arguments, random state, outputs, their gradients."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

from taiyi_fx.passes.runtime.random_state import random_state
from taiyi_fx.passes.structure import tensors_in
from taiyi_fx.recorder.replay.facts import has_nan
from taiyi_fx.recorder.replay.flags import largest
from taiyi_fx.reductions import Fingerprint

Print: TypeAlias = tuple[Tensor, ...]
"""The fingerprint of a tensor, on its device."""

Prints: TypeAlias = "tuple[tuple[int, int] | None, ...]"
"""The fingerprints of some tensors; None of one that has none."""

Marks: TypeAlias = "tuple[list[Tensor], list[Tensor]]"

_DEVICES = ("cpu", "cuda")


@dataclass
class Call:
    """A call of the model.

    Attributes:
        args: The arguments by position, as they were given: no copies.
        kwargs: Those by name.
        is_compiled: True if compiled code ran.
        random: The states of all random generators as it began.
        autocast: For each type of device, whether autocast was on, and its type.
        outputs: The fingerprints of the output's tensors; None of those that have none.
        gradients: The gradients that reached them, by position.
        is_complete: True once it returned.
        marks: The largest elements of outputs, and of the gradients: NaN where one is.
        buffers: The buffers that a wrapper for several ranks brought from another one, by name.
        has_arguments: False where they were dropped, as a reference to the batch is kept.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_compiled: bool
    random: Mapping[str, Any] = field(default_factory=random_state)
    autocast: Mapping[str, tuple[bool, torch.dtype]] = field(
        default_factory=lambda: autocast_states()
    )
    outputs: tuple[Print | None, ...] = ()
    gradients: dict[int, Tensor] = field(default_factory=dict)
    is_complete: bool = False
    marks: Marks = field(default_factory=lambda: ([], []))
    buffers: Mapping[str, Tensor] = field(default_factory=dict)
    has_arguments: bool = True

    def __post_init__(self) -> None:
        self._versions = [(x, x._version) for x in self._tensors() if not x.is_inference()]

    def end(self, value: Any) -> None:
        """Takes the output: its fingerprints, and from now on the gradients that reach it."""
        tensors = [*tensors_in(value)]
        with torch.no_grad():
            self.outputs = tuple(map(fingerprint_of, tensors))
            self._mark(0, tensors)
        for i, x in enumerate(tensors):
            if x.grad_fn is not None:
                x.register_hook(lambda gradient, i=i: self._take(i, gradient))
        self.is_complete = True

    @property
    def was_changed(self) -> bool:
        """True if an argument was changed in place since, by the training or by the model."""
        return any(x._version != version for x, version in self._versions)

    def drop_arguments(self) -> None:
        """Keeps the arguments no longer."""
        self.args, self.kwargs, self._versions, self.has_arguments = (), {}, [], False

    def restore_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Keeps arguments again, which were made anew, where they had been dropped."""
        if not self.has_arguments:
            self.args, self.kwargs, self.has_arguments = args, kwargs, True

    def tensors(self) -> list[Tensor]:
        """The tensors that it keeps: arguments, gradients and buffers."""
        return [*self._tensors(), *self.gradients.values(), *self.buffers.values()]

    def _tensors(self) -> list[Tensor]:
        return [*tensors_in((self.args, self.kwargs))]

    def _mark(self, side: int, tensors: Sequence[Tensor]) -> None:
        self.marks[side].extend(m for m in map(largest, tensors) if m is not None)

    def _take(self, i: int, gradient: Tensor) -> None:
        with torch.no_grad():
            self._mark(1, [gradient])
        # The very tensor: as long as it is held, autograd leaves it to nobody to write into.
        self.gradients[i] = gradient.detach().clone() if gradient.requires_grad else gradient


def bad_arguments(args: Any, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """The tensors with a NaN among arguments, each with the name of its argument."""
    named = [*((f"argument {i}", a) for i, a in enumerate(args)), *kwargs.items()]
    for name, value in named:
        yield from ((name, x) for x in tensors_in(value) if has_nan(x))


def prints_of(value: Any) -> Prints:
    """The fingerprints of an output's tensors."""
    return tuple(map(as_numbers, map(fingerprint_of, tensors_in(value))))


def as_numbers(found: Print | None) -> tuple[int, int] | None:
    """A fingerprint on the host."""
    return None if found is None else (int(found[0]), int(found[1]))


def fingerprint_of(x: Tensor) -> Print | None:
    """The fingerprint of a tensor; None if it can have none."""
    if x.layout is not torch.strided or x.is_nested or x.is_meta or x.is_quantized:
        return None
    return Fingerprint().measure(x.detach())


def autocast_states() -> dict[str, tuple[bool, torch.dtype]]:
    """For each type of device in use, whether autocast is on, and its type."""
    kinds = _DEVICES if "torch.cuda" in sys.modules and torch.cuda.is_initialized() else ("cpu",)
    return {k: (torch.is_autocast_enabled(k), torch.get_autocast_dtype(k)) for k in kinds}
