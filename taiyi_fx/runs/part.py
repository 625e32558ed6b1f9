"""The parts of a run that several writers made, each in a folder of its own.

A rank that records alone, as a stage of a pipeline does, and a model that was given a name as a
part each write a whole run: to the run's own folder (rank 0), or to one inside. Beside it they keep
``part.json``, with the tokens of the launches that wrote it. Parts that share a token are one run:
no process waits for another or writes to a file of another's, and what an overwritten run left
behind shares none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taiyi_fx.atomic_write import atomic_write
from taiyi_fx.runs.damage import reading
from taiyi_fx.runs.schema import PARQUET, PART, SQLITE


@dataclass(frozen=True)
class Part:
    """A part of a run.

    Attributes:
        folder: Its folder.
        name: The name that it was given; empty for that of a rank.
        rank: The rank that wrote it.
        launches: The tokens of the launches that wrote it.
    """

    folder: Path
    name: str
    rank: int
    launches: tuple[str, ...]

    @property
    def label(self) -> str:
        """The name that its modules are distinguished by."""
        return self.name or f"rank{self.rank}"


def folder_name(name: str, rank: int) -> str:
    """The name of a part's folder inside the run's; empty for the run's own."""
    return name or (f"rank{rank}" if rank else "")


def check_name(name: str) -> None:
    """Checks the name of a part at the door.

    Raises:
        TypeError: It is not a text.
        ValueError: It cannot be a folder's, or is one that ranks have.
    """
    if not isinstance(name, str):
        raise TypeError(f"part is a name, such as 'stage1', not {name!r}")
    if name and not re.fullmatch(r"(?!rank[0-9]+$)\w[\w-]{0,99}", name):
        raise ValueError(
            f"part is a name of letters, digits, '_' and '-', such as 'stage1', and not 'rank1', "
            f"which ranks have: {name!r}"
        )


def note_launch(folder: Path, name: str, rank: int, token: str, *, resumes: bool) -> None:
    """Notes in a part's folder that a launch writes it.

    Args:
        folder: The folder.
        name: The part's name.
        rank: The rank.
        token: The launch's token; empty where a run has no other parts.
        resumes: True to keep the tokens of earlier launches.

    Raises:
        OSError: It cannot be written.
        ValueError: What is there is damaged.
    """
    known = part_in(folder) if resumes else None
    if not token:
        if known is None:
            (folder / PART).unlink(missing_ok=True)
        return
    launches = dict.fromkeys([*(known.launches if known else ()), token])
    with atomic_write(folder / PART) as file:
        data = {"name": name, "rank": rank, "launches": [*launches]}
        file.write_text(json.dumps(data), encoding="utf-8")


def parts_of(folder: Path) -> list[Part]:
    """The parts of the run in a folder, in their order; empty where it is whole, or no run.

    Raises:
        OSError: They cannot be read.
        ValueError: One is damaged.
    """
    own = part_in(folder) if _is_run(folder) else None
    if own is None and _is_run(folder):
        return []
    inside = [
        part
        for file in folder.glob(f"*/{PART}")
        if _is_run(file.parent) and (part := part_in(file.parent)) is not None
    ]
    inside = [part for part in inside if folder_name(part.name, part.rank) == part.folder.name]
    if own is None:
        newest = max((max(part.launches, default="") for part in inside), default="")
        shared = next((set(p.launches) for p in inside if newest in p.launches), set[str]())
    else:
        shared = set(own.launches)
    found = [part for part in inside if shared.intersection(part.launches)]
    return sorted([*([own] if own else []), *found], key=_order)


def part_in(folder: Path) -> Part | None:
    """The part that a folder holds; None where it holds a whole run.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged.
    """
    file = folder / PART
    if not file.exists():
        return None
    with reading(file):
        data: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        name, rank, launches = data["name"], data["rank"], data["launches"]
        is_right = type(name) is str and type(rank) is int and type(launches) is list
        if not is_right or not all(type(token) is str for token in launches):
            raise TypeError("name, rank or launches are of another type")
        return Part(folder, name, rank, tuple(launches))


def _is_run(folder: Path) -> bool:
    return (folder / SQLITE).exists() or (folder / PARQUET).exists()


def _order(part: Part) -> tuple[Any, ...]:
    """Ranks first, by their numbers, then names, with numbers in them as such."""
    texts = re.split(r"([0-9]+)", part.name)
    return (
        bool(part.name),
        part.rank if not part.name else 0,
        [(int(text), "") if text.isdigit() else (-1, text) for text in texts],
    )
