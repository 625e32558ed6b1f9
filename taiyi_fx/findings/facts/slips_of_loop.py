"""Slips in the code that trains: parameters that stay as they are, penalties without a gradient,
gradients that are clipped too late, random numbers that are begun anew.

It is read, and none of it is run.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from taiyi_fx.findings.facts.clipping import clips_behind_steps
from taiyi_fx.findings.facts.derivatives import terms_without_gradient
from taiyi_fx.findings.facts.reseeding import seeds_in_loops
from taiyi_fx.findings.facts.slips import Kind, Slip, is_returning, shortened

_OWN = (os.path.join(Path(__file__).parents[2], ""), sysconfig.get_path("stdlib"))
_LIBRARIES = ("site-packages", "dist-packages")


def files_of_loop() -> list[str]:
    """The script, and the files of the functions that run now, but for those of libraries."""
    found = dict.fromkeys([str(getattr(sys.modules.get("__main__"), "__file__", None) or "")])
    frame = sys._getframe()
    while frame is not None:
        found[frame.f_code.co_filename] = None
        frame = frame.f_back
    return [path for path in found if not path.startswith(_OWN) and not _is_of_library(path)]


def slips_of_loop(files: Iterable[str]) -> tuple[Slip, ...]:
    """The slips in some files; none in what was typed in by hand.

    Args:
        files: Their paths, as `files_of_loop` has them.
    """
    return tuple(slip for path in files for slip in _read(path))


def _is_of_library(path: str) -> bool:
    return any(home in path for home in _LIBRARIES)


def _read(path: str) -> list[Slip]:
    """The slips in a file; none in what is no code of Python, or nested beyond what can be read."""
    try:
        return [*_of_file(path)]
    except (SyntaxError, ValueError, RecursionError):
        return []


def _of_file(path: str) -> Iterator[Slip]:
    tree = ast.parse("".join(linecache.getlines(path)))
    file = path.replace("\\", "/").rpartition("/")[2]
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    found: dict[Kind, Iterable[ast.expr]] = {
        "thrown": filter(_leaves_a_tensor_as_it_is, statements),
        "penalty": terms_without_gradient(tree),
        "clip": clips_behind_steps(tree),
        "seed": seeds_in_loops(tree),
    }
    for kind, every in found.items():
        yield from (Slip(shortened(one), f"{file}:{one.lineno}", kind) for one in every)


def _leaves_a_tensor_as_it_is(call: ast.expr) -> bool:
    """True for a method that returns another tensor, of ``.data`` or ``.grad``."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    given = call.func.value
    is_tensor = isinstance(given, ast.Attribute) and given.attr in ("data", "grad")
    is_plain = not any(keyword.arg in ("out", None) for keyword in call.keywords)
    return is_tensor and is_plain and is_returning(call.func.attr)
