"""Groups of runs that a command line names: each argument is a run, or several of one group."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from taiyi_fx.cli.refused import Refused

GROUPS = (
    "RUN is a run's folder, or a group of runs, as of one training with several seeds: folders "
    "with commas between them, or a pattern in quotes, such as 'runs/seed-*'"
)
"""The meaning of an argument, for the help of commands."""


def groups_of(arguments: Sequence[str]) -> list[list[str]]:
    """The folders of each argument's runs.

    Raises:
        Refused: A pattern matches no folder.
    """
    return [_group(text) for text in arguments]


def _group(text: str) -> list[str]:
    if Path(text).exists():  # whatever characters its name has
        return [text]
    return [folder for part in text.split(",") if part for folder in _folders(part)] or [text]


def _folders(part: str) -> list[str]:
    if glob.escape(part) == part:
        return [part]
    found = [folder for folder in sorted(glob.glob(part)) if Path(folder).is_dir()]
    if not found:
        raise Refused(f"no folder matches {part!r}")
    return found
