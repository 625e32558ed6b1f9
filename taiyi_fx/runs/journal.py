"""Journals beside a run's SQLite file, which are checked before SQLite opens them."""

from __future__ import annotations

from pathlib import Path

_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""The end of a journal that names a super-journal, as SQLite's file format defines it."""


def journal_of(file: Path) -> Path:
    """The rollback journal of a file, where SQLite looks for it: beside the file behind a link."""
    real = file.resolve()
    return real.with_name(f"{real.name}-journal")


def refuse_super_journal(file: Path) -> None:
    """Raises where SQLite, as it rolls a file back, would delete another file.

    The journal of a transaction over several databases ends with the name of a super-journal, which
    may be any file of the system, and which SQLite deletes when the last of its journals is rolled
    back. A run is one database, so such a journal is not a run's. taiyi_fx leaves no rollback
    journals at all, but older versions of it did when they were killed.

    Raises:
        ValueError: The journal names another one, or is not a file.
    """
    journal = journal_of(file)
    try:
        data = journal.open("rb") if journal.is_file() and not journal.is_symlink() else None
    except FileNotFoundError:
        return
    if data is None:
        if journal.exists() or journal.is_symlink():
            raise ValueError(f"{str(journal)!r} is not a file, as the journal of a run is")
        return
    with data:
        size = data.seek(0, 2)
        data.seek(max(size - len(_MAGIC), 0))
        if data.read() == _MAGIC:
            raise ValueError(
                f"{str(journal)!r} is not the journal of a run: it names another file, which "
                "would be deleted. It may have been made to do harm"
            )
