"""Adding a subcommand: its help, its examples and its function."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The parser's collection of subcommands."""


def command(
    commands: Commands,
    name: str,
    summary: str,
    run: Callable[[argparse.Namespace], int],
    examples: str,
) -> argparse.ArgumentParser:
    """Adds a subcommand.

    Args:
        commands: The parser's subcommands.
        name: Its name.
        summary: Its description in a sentence.
        run: Runs it, and returns the exit code.
        examples: Command lines, for the end of its help.
    """
    added = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog="examples:\n" + textwrap.indent(textwrap.dedent(examples).strip(), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    added.set_defaults(run=run)
    return added


def whole(text: str) -> int:
    """A whole number of at least 0, for an argument's ``type``."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def tolerance(text: str) -> float:
    """A finite number of at least 0, for an argument's ``type``."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0")
    return value
