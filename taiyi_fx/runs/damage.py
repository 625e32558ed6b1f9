"""The boundary between the file of a run, which may hold anything, and its readers.

Between a file and a number lie SQLite or pyarrow, JSON, numpy and this package, and each of them
has errors of its own for data that are not what they should be. Checking each cell before each use
would fill the readers with tests, of which some would be forgotten. So a source does two things. It
runs each of its methods within `reading`, which turns any failure into one that names the file. And
it passes rows through `checked`: a cell of a wrong type fails there, and not later in other code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import UnionType
from typing import (
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    get_origin,
    get_type_hints,
)

from taiyi_fx.runs.schema import Session, StoredSeries
from taiyi_fx.runs.source import Changed

P = ParamSpec("P")
T = TypeVar("T")
Row = TypeVar("Row", bound=tuple[Any, ...])


@contextmanager
def reading(place: Path) -> Iterator[None]:
    """A context in which each failure to read a file names it.

    Args:
        place: The file, or the folder of several.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged.
    """
    try:
        yield
    except (Changed, FileExistsError, ImportError, MemoryError):  # none of them means damage
        raise
    except Exception as error:
        # A message has the path as its repr has it, without the quotes.
        if repr(str(place))[1:-1] in str(error):
            raise
        raise damaged(place, error) from error


class HasPlace(Protocol):
    """Anything that is read from a file or a folder."""

    @property
    def place(self) -> Path:
        """The file, or the folder of several."""
        ...


Source = TypeVar("Source", bound=HasPlace)


def names_the_file(
    method: Callable[Concatenate[Source, P], T],
) -> Callable[Concatenate[Source, P], T]:
    """A method of a source that runs within `reading`."""

    @functools.wraps(method)
    def read(self: Source, *args: P.args, **kwargs: P.kwargs) -> T:
        with reading(self.place):
            return method(self, *args, **kwargs)

    return read


def damaged(file: Path, error: Exception) -> ValueError | TimeoutError:
    """The error for a file that is damaged, or that SQLite's progress handler gave up on."""
    if str(error) == "interrupted":
        return TimeoutError(f"{str(file)!r}: a query took too long and was stopped")
    kind = "" if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: "
    return ValueError(f"{str(file)!r} is damaged, or is not a run: {kind}{error}")


def checked(row: Row) -> Row:
    """A row of a file, once each cell is of the type that its name stands for.

    Raises:
        TypeError: A cell is of another type.
        ValueError: An integer has more than 64 bits, which only a seed may have.
    """
    for value, (name, kind) in zip(row, _kinds(type(row)), strict=True):
        if not isinstance(value, kind):
            raise TypeError(f"{name} is {type(value).__name__}, as in {str(value)[:40]!r}")
        if isinstance(value, int) and name != "seed" and not -(2**63) <= value < 2**63:
            raise ValueError(f"{name} has more than 64 bits")
    return row


def checked_session(session: Session) -> Session:
    """A session of a file, once its parts are of the types that it declares.

    Raises:
        TypeError: A part is of another type.
    """
    for entry in checked(session).config:
        if not isinstance(entry, Mapping):
            raise TypeError(f"config has the entry {str(entry)[:40]!r}")
    return session


def numbered(series: Sequence[StoredSeries]) -> Sequence[StoredSeries]:
    """The series of a file that is to be added to, once their ids are 1, 2, 3, ..., as made.

    Raises:
        ValueError: Ids are missing, or two series are one.
    """
    if [s.id for s in series] != list(range(1, len(series) + 1)):
        raise ValueError("the ids of its series are not 1, 2, 3, ...")
    if len({(s.mode, s.name, s.quantity) for s in series}) < len(series):
        raise ValueError("a series is in it twice")
    return series


@functools.cache
def _kinds(row: type) -> list[tuple[str, Any]]:
    """The name and the type of each field, as `isinstance` takes it."""
    return [(name, _kind(hint)) for name, hint in get_type_hints(row).items()]


def _kind(hint: Any) -> Any:  # types of typing's own
    if get_origin(hint) is Literal:
        return str
    return hint if isinstance(hint, UnionType) else get_origin(hint) or hint
