"""The user's own function of a step, and its calls, kept so that they can be run again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from taiyi_fx.passes.runtime.random_state import random_state
from taiyi_fx.passes.structure import replace_tensor, tensors_in
from taiyi_fx.recorder.replay.calls import Print, as_numbers, autocast_states, fingerprint_of
from taiyi_fx.recorder.replay.iterators import check_repeatable


class StepFunctionFailed(Exception):
    """The user's function could not run again; the message says why."""


@dataclass(frozen=True)
class StepFunction:
    """A function of the user's that runs a step.

    Attributes:
        run: The function.
        reference: Gives a reference to the batch, the function's first argument, which is kept in
            place of it; None keeps the batch.
        batch: Gives the batch of a reference anew.
    """

    run: Callable[..., Any]
    reference: Callable[[Any], Any] | None = None
    batch: Callable[[Any], Any] | None = None

    @property
    def name(self) -> str:
        """The function's name, for a text."""
        return getattr(self.run, "__qualname__", repr(self.run)).rpartition(".<locals>.")[2]


@dataclass
class StepCall:
    """A call of a step's function.

    Attributes:
        function: The function.
        args: The arguments by position, no copies; a reference in place of the batch.
        kwargs: Those by name.
        prints: The fingerprints of the batch's tensors, where a reference is kept.
        random: The states of all random generators as it began.
        autocast: For each type of device, whether autocast was on, and its type.
        gradients: The gradients that reached what it returned, by position: of a function that
            leaves backward to its caller.
    """

    function: StepFunction
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    prints: Sequence[Print | None] = ()
    random: Mapping[str, Any] = field(default_factory=random_state)
    autocast: Mapping[str, tuple[bool, torch.dtype]] = field(default_factory=autocast_states)
    gradients: dict[int, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, function: StepFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StepCall:
        """A call that begins.

        Raises:
            TypeError: The batch is not the first argument by position, where it is to be referred
                to.
        """
        if function.reference is None:
            return cls(function, args, kwargs)
        if not args:
            raise TypeError(f"{function.name} takes the batch as its first argument, by position")
        prints = [fingerprint_of(x) for x in tensors_in(args[0])]
        return cls(function, (function.reference(args[0]), *args[1:]), kwargs, prints)

    def end(self, value: Any) -> None:
        """Takes the gradients that will reach what it returned."""
        for i, x in enumerate(tensors_in(value)):
            if x.grad_fn is not None:
                x.register_hook(lambda gradient, i=i: self._take(i, gradient))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copies of its arguments; the batch of a reference is made anew.

        Raises:
            CannotRepeat: One is an iterator.
            Exception: Whatever goes wrong in making the batch.
        """
        check_repeatable(self.args, self.kwargs, self.function.name)
        args, kwargs = copied((self.args, dict(self.kwargs)))
        if self.function.batch is not None:
            args = (self.function.batch(args[0]), *args[1:])
        return args, kwargs

    def has_other_batch(self, batch: Any) -> bool:
        """True if a batch that was made anew has other bits than that of then."""
        if self.function.reference is None:
            return False
        now = [as_numbers(fingerprint_of(x)) for x in tensors_in(batch)]
        return now != [*map(as_numbers, self.prints)]

    def tensors(self) -> list[Tensor]:
        """The tensors that it keeps."""
        return [*tensors_in((self.args, self.kwargs)), *self.gradients.values()]

    def _take(self, i: int, gradient: Tensor) -> None:
        self.gradients[i] = gradient.detach()


def copied(value: Any) -> Any:
    """A value with copies of its tensors; what is no container of them stays itself."""
    for x in dict.fromkeys(tensors_in(value)):
        value = replace_tensor(value, x, x.detach().clone().requires_grad_(x.requires_grad))
    return value
