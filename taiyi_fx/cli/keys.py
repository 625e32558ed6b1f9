"""Keys of a configuration as texts: also paths of functions and classes of torch."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

_LIBRARIES = ("torch", "operator", "math")


def as_key(model: nn.Module, text: str) -> Any:  # whatever a configuration takes as a key
    """What a text means as a key: ``torch.nn.functional.relu`` the function, else the text itself.

    A module of that name comes first.
    """
    from taiyi_fx.matching import is_name

    library, _, path = text.partition(".")
    if library not in _LIBRARIES or not path or is_name(model, text):
        return text
    try:
        found = functools.reduce(getattr, path.split("."), importlib.import_module(library))
    except AttributeError:
        return text
    return found if callable(found) else text
