"""The loss that a model returns itself, as those of transformers do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

NAME = "loss"
"""The name of the attribute, or of the entry, that holds it."""


def loss_in(returned: Any) -> Tensor | None:
    """The loss in what a model returned; None where there is none that can be told from others.

    What is returned alone, or as the one number among other tensors, or under the name ``loss``.

    Args:
        returned: A tensor, a tuple or list of them, a mapping, or an object with attributes.
    """
    if isinstance(returned, Mapping):
        of = [returned.get(NAME)]
    elif isinstance(returned, (tuple, list)) and not hasattr(returned, NAME):
        of = [one for one in returned if _is_loss(one)]
    else:
        of = [returned if isinstance(returned, Tensor) else getattr(returned, NAME, None)]
    return of[0] if len(of) == 1 and _is_loss(of[0]) else None


def _is_loss(one: Any) -> bool:
    """True for a number with a graph; other classes of tensors are told what they are asked."""
    return type(one) is Tensor and one.ndim == 0 and one.grad_fn is not None
