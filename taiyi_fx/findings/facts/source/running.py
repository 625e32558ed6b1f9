"""The code that runs now, and what it names in the other files of whoever wrote it."""

from __future__ import annotations

import dis
import inspect
import os
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from taiyi_fx.findings.facts.source.reach import MODULE

Running: TypeAlias = Mapping[str, Collection[int]]
"""The first lines of functions, by the path of their file; `MODULE` for code outside of any."""

_OWN = (os.path.join(Path(__file__).parents[3], ""), sysconfig.get_path("stdlib"))
_LIBRARIES = ("site-packages", "dist-packages")
_FILES = 20
"""The most files of code: a look at each takes some hundredths of a second, in the first steps."""


class _Code(NamedTuple):
    """Code with the names that it finds."""

    code: types.CodeType
    names: Mapping[str, Any]


def code_of_loop() -> Running:
    """The functions that run now, those that they name, and the script, but for libraries.

    Names are looked up as they are when this is called: functions and classes, also of modules.
    """
    script = str(getattr(sys.modules.get("__main__"), "__file__", None) or "")
    waiting: deque[_Code] = deque()
    frame = sys._getframe()
    while frame is not None:
        waiting.append(_Code(frame.f_code, frame.f_globals))
        frame = frame.f_back
    found: dict[str, set[int]] = {script: {MODULE}}
    seen: set[types.CodeType] = set()
    while waiting:
        code, names = waiting.popleft()
        path = code.co_filename
        is_there = path in found or len(found) < _FILES
        if code in seen or not is_there or _is_of_library(path):
            continue
        seen.add(code)
        line = MODULE if code.co_name == "<module>" else code.co_firstlineno
        found.setdefault(path, set()).add(line)
        waiting += _named_by(code, names)
    lines = {path: frozenset(of) for path, of in found.items()}
    return {path: of for path, of in lines.items() if not _is_of_library(path)}


def _is_of_library(path: str) -> bool:
    return path.startswith(_OWN) or any(home in path for home in _LIBRARIES)


def _named_by(code: types.CodeType, names: Mapping[str, Any]) -> Iterator[_Code]:
    """The functions, and the methods of the classes, that code names."""
    asked = {*_names_in(code)}
    known = [names[name] for name in asked if name in names]
    modules = [one for one in known if isinstance(one, types.ModuleType)]
    known += [vars(module)[name] for module in modules for name in asked & vars(module).keys()]
    for one in known:
        functions = [*vars(one).values()] if isinstance(one, type) else [one]
        for function in map(_unwrapped, functions):
            if isinstance(function, types.FunctionType):
                yield _Code(function.__code__, function.__globals__)


def _names_in(code: types.CodeType) -> Iterator[str]:
    """The names that code reads; of a function also those in functions within it."""
    if code.co_name == "<module>":  # where a function stands it does not run
        reads = (one for one in dis.get_instructions(code) if one.opname.startswith("LOAD_"))
        yield from (one.argval for one in reads if isinstance(one.argval, str))
        return
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names_in(inner)


def _unwrapped(function: Any) -> Any:
    """The function that a decorator of its kind holds, as `functools.wraps` notes it."""
    return inspect.unwrap(function) if isinstance(function, types.FunctionType) else function
