"""Programs as modules: files of their own, so that their source is there to be read."""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

_NUMBERS = itertools.count()
_NAME = re.compile(r"program_\d+_(plain|watched)")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


@contextmanager
def loaded(source: str, before: Callable[[], None]) -> Iterator[tuple[ModuleType, ModuleType]]:
    """Two modules of one text, each with what is global in it of its own.

    Args:
        source: The text.
        before: Called before each, to seed what it draws.
    """
    number = next(_NUMBERS)
    with tempfile.TemporaryDirectory() as folder:
        names = [f"program_{number}_{side}" for side in ("plain", "watched")]
        try:
            plain, watched = (_load(name, source, Path(folder), before) for name in names)
            yield plain, watched
        finally:
            for name in names:
                sys.modules.pop(name, None)
                linecache.cache.pop(str(Path(folder) / f"{name}.py"), None)


def _load(name: str, source: str, folder: Path, before: Callable[[], None]) -> ModuleType:
    file = folder / f"{name}.py"
    text = source.replace("THIS_MODULE", name)
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    before()
    exec(compile(text, str(file), "exec"), module.__dict__)  # writes no __pycache__
    return module


def nameless(text: str) -> str:
    """A text without what differs between the two modules and between runs."""
    return _ADDRESS.sub("0x", _NAME.sub("program", text))
