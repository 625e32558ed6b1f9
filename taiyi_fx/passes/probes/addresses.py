"""Reductions by a text: compiled code holds constants, which a reduction is not."""

from __future__ import annotations

import os
import uuid
from typing import Any

_REDUCTIONS: dict[str, Any] = {}
_ADDRESSES: dict[Any, str] = {}
_REFUSALS: dict[str, Exception] = {}
_RUN = uuid.uuid4().hex


def address_of(reduction: Any) -> str:
    """A text by which a reduction is found, or an equal one; it stays as long as Python runs."""
    if reduction not in _ADDRESSES:
        # Torch keeps compiled code on disk and finds it by such texts, which say nothing of what a
        # reduction does: so they are those of one process, a forked one being another.
        name = f"{type(reduction).__name__}_{len(_ADDRESSES)}_{os.getpid()}_{_RUN}"
        _ADDRESSES[reduction] = name
        _REDUCTIONS[name] = reduction
    return _ADDRESSES[reduction]


def reduction_at(address: str) -> Any:
    """The reduction of an address."""
    return _REDUCTIONS[address]


def refuse(address: str, error: Exception) -> None:
    """Keeps why a reduction just could not be taken in compiled code."""
    _REFUSALS[address] = without_frames(error)


def refusal_of(address: str) -> Exception:
    """Why a reduction just could not be taken."""
    return _REFUSALS.pop(address)


def without_frames(error: Exception) -> Exception:
    """The error without its traceback, which would keep the tensors of its frames alive."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
