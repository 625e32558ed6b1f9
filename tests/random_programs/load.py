"""Programs as modules: files of their own, so that their source is there to be read."""

from __future__ import annotations

import functools
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
    folder = Path(_folder().name)
    files = [folder / f"program_{number}_{side}.py" for side in ("plain", "watched")]
    try:
        plain, watched = (_load(file, source, before) for file in files)
        yield plain, watched
    finally:
        for file in files:
            sys.modules.pop(file.stem, None)
            linecache.cache.pop(str(file), None)
            file.unlink(missing_ok=True)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """One for the process, which goes with it."""
    return tempfile.TemporaryDirectory()


def _load(file: Path, source: str, before: Callable[[], None]) -> ModuleType:
    name = file.stem
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
