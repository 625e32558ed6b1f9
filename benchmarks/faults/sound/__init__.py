"""Sound trainings as their users write them: each with its own model, data, loss and loop.

Each file of this folder but `training` is a field, and is read by itself. One whose library is
not installed is left out, with a word.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys

from benchmarks.zoo_models.vision_operators import define_vision_operators


def read_all() -> None:
    """Imports all files of this folder, which registers their trainings."""
    if importlib.util.find_spec("torchvision"):  # which transformers imports where it is there
        define_vision_operators()
    for found in pkgutil.iter_modules(__path__):
        try:
            importlib.import_module(f"{__name__}.{found.name}")
        except ModuleNotFoundError as missing:
            if missing.name is None or missing.name.startswith(("benchmarks", "taiyi_fx")):
                raise
            print(f"sound/{found.name}.py is left out: no {missing.name} here", file=sys.stderr)
