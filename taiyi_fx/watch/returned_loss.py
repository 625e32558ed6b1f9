"""The loss that a model returns itself, as those of transformers do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from taiyi_fx.passes.probes.modes import unseen

NAME = "loss"
"""The name of the attribute, or of the entry, that holds it."""


class ReturnedLoss:
    """The losses that a model returns in one step, as one number."""

    def __init__(self) -> None:
        self._total: Tensor | None = None
        self._count = 0

    def add(self, returned: Any, *, is_share: bool = False) -> None:
        """Adds the loss in what a forward returned, if there is one.

        Args:
            returned: What it returned.
            is_share: Whether it is a share of the step's loss, and not one of several alike.
        """
        loss = unseen(_detached_in, returned)
        if loss is not None:
            self._count += not is_share
            self._total = loss if self._total is None else unseen(torch.add, self._total, loss)

    def take(self) -> Tensor | None:
        """The loss since the last call: the mean of its micro-batches, or the sum of their shares.

        On the device that it was computed on; None where the model returned none.
        """
        total, count = self._total, self._count
        self._total, self._count = None, 0
        return total if total is None or not count else total / count


def _detached_in(returned: Any) -> Tensor | None:
    loss = loss_in(returned)
    return None if loss is None else loss.detach()


def loss_in(returned: Any) -> Tensor | None:
    """The loss in what a model returned; None where there is none that can be told from others.

    What is returned alone, or as the one number among other tensors, or under the name ``loss``.
    None of the user's code is run: neither properties nor mappings of their own are asked.

    Args:
        returned: A tensor, a tuple or list of them, a dictionary, or an object with attributes.
    """
    if isinstance(returned, dict):
        of = [dict.get(returned, NAME)]
    elif isinstance(returned, tuple):
        of = [*filter(_is_loss, tuple.__iter__(returned))]
    elif isinstance(returned, list):
        of = [*filter(_is_loss, list.__iter__(returned))]
    else:
        of = [returned if isinstance(returned, Tensor) else _attribute(returned)]
    return of[0] if len(of) == 1 and _is_loss(of[0]) else None


def _attribute(returned: Any) -> Any:
    """The attribute as the object holds it; None of a property, and of an object without any."""
    try:
        held = object.__getattribute__(returned, "__dict__")
    except AttributeError:
        return None
    return dict.get(held, NAME) if isinstance(held, dict) else None


def _is_loss(one: Any) -> bool:
    """True for a number with a graph; other classes of tensors are told what they are asked."""
    return type(one) is Tensor and one.ndim == 0 and one.grad_fn is not None
