"""Optional packages, imported when a writer that needs them is opened."""

from __future__ import annotations

import importlib
from typing import Any


def import_optional(
    name: str, extra: str
) -> Any:  # a module, of a package that pyright may not see
    """A module of an optional package.

    Raises:
        ImportError: It is not installed; the message names the extra to install.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name != package:
            raise
        raise ImportError(f"this needs {package}: pip install 'taiyi-fx[{extra}]'") from error
