"""Runs and series that a command line names."""

from __future__ import annotations

import fnmatch
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from taiyi_fx.cli.refused import Refused
from taiyi_fx.suggestion import suggestion

if TYPE_CHECKING:
    from taiyi_fx.runs import Run, SeriesName


@contextmanager
def opened(path: str) -> Iterator[Run]:
    """A run to read in a ``with`` block.

    Raises:
        Refused: There is none, or it cannot be read.
    """
    from taiyi_fx.runs import open_run

    try:
        with open_run(path) as run:
            yield run
    except BrokenPipeError:  # of what the block prints
        raise
    except (OSError, ValueError, ImportError) as error:
        raise Refused(str(error)) from error


def add_selection(command: ArgumentParser) -> None:
    """Adds the arguments that choose series."""
    command.add_argument(
        "--module", metavar="PATTERN", help="only modules of this name, which may have * ? [ ]"
    )
    command.add_argument(
        "--quantity",
        metavar="PATTERN",
        action="append",
        help="only quantities of this name, with their parts such as UpdateRatio.bias, or of this "
        "pattern with * ? [ ]; may be given several times",
    )
    command.add_argument(
        "--exclude",
        metavar="PATTERN",
        action="append",
        help="not these quantities, named in the same way; may be given several times",
    )
    command.add_argument("--mode", choices=("train", "eval"), help="only series of this mode")


def selected(names: Iterable[SeriesName], given: Namespace) -> list[SeriesName]:
    """The series that the arguments choose.

    Raises:
        Refused: There are some, and none is chosen.
    """
    names = list(names)
    found = [
        name
        for name in names
        if given.mode in (None, name.mode)
        and _fits(name.module, [given.module] if given.module is not None else ["*"])
        and _is_of(name.quantity, given.quantity or ["*"])
        and not _is_of(name.quantity, given.exclude or [])
    ]
    if names and not found:
        raise Refused(_why_none(names, given))
    return found


def _fits(word: str, patterns: list[str]) -> bool:
    return any(word == pattern or fnmatch.fnmatchcase(word, pattern) for pattern in patterns)


def _is_of(quantity: str, patterns: list[str]) -> bool:
    is_part = quantity.startswith(tuple(f"{pattern}." for pattern in patterns))
    return is_part or _fits(quantity, patterns)


def _why_none(names: list[SeriesName], given: Namespace) -> str:
    modules = list(dict.fromkeys(name.module for name in names))
    quantities = list(dict.fromkeys(name.quantity for name in names))
    if given.module is not None and not any(_fits(m, [given.module]) for m in modules):
        return f"no module matches {given.module!r}.{suggestion(given.module, modules)}"
    for pattern in given.quantity or []:
        if not any(_is_of(quantity, [pattern]) for quantity in quantities):
            return f"no quantity matches {pattern!r}.{suggestion(pattern, quantities)}"
    return "no series matches all of --module, --quantity, --exclude and --mode"
