"""Optional libraries of tables, imported when a table is asked for."""

from __future__ import annotations

import importlib
from typing import Any


def imported(library: str) -> Any:  # an optional package, not seen by pyright
    """A library, whose extra has its name.

    Raises:
        ImportError: It is not installed; the message names the extra to install.
    """
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise ImportError(
            f"{library} is not installed: pip install 'taiyi-fx[{library}]'"
        ) from error
