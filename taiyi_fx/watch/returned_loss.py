"""The loss that a model returns itself, as those of transformers do."""

from __future__ import annotations

from typing import Any

from torch import Tensor

NAME = "loss"
"""The name of the attribute, or of the entry, that holds it."""


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
