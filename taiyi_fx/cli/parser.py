"""All subcommands and their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from taiyi_fx.cli import (
    check,
    compare,
    coord,
    diff,
    doctor,
    export,
    graph,
    plot,
    quantities,
    replay,
    report,
    show,
    targets,
    watch,
)
from taiyi_fx.suggestion import suggestion
from taiyi_fx.version import __version__

_SUBJECTS = (
    quantities,
    targets,
    check,
    graph,
    show,
    plot,
    replay,
    report,
    watch,
    compare,
    coord,
    diff,
    export,
    doctor,
)

_NO_COMMAND = 2

_ELSEWHERE = {"findings": " taiyi-fx show RUN has them"}
"""The answers to names that another command is for."""

_EPILOG = """\
MODEL is module:callable: what is called gives a model, or it is one. The working directory is
looked at first. CFG is a configuration: a .py file that sets `cfg`, .yaml or .toml. RUN is the
folder of a run.

exit codes:
  0   all is well, the runs are equal
  1   what was looked at is wrong: a configuration, a comparison, an installation
  2   it could not be looked at
  70  taiyi-fx has a defect, and shows where

examples:
  taiyi-fx quantities WeightNorm
  taiyi-fx check models:net probes.yaml
  taiyi-fx show runs/exp1
  taiyi-fx report runs/exp1 --open
  taiyi-fx compare runs/exp1 runs/exp2

taiyi-fx COMMAND --help has more.
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the command line; its result's ``run`` is the subcommand's function."""
    made = _Parser(
        prog="taiyi-fx",
        description="Looks at models, configurations and runs of taiyi_fx.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"taiyi-fx {__version__}"
    made.add_argument(
        "--version", action="version", version=version, help="show the version and end"
    )
    made.set_defaults(run=lambda given: made.print_help() or _NO_COMMAND)
    commands = made.add_subparsers(
        title="commands", metavar="COMMAND", parser_class=argparse.ArgumentParser
    )
    for subject in _SUBJECTS:
        subject.add(commands)
    made.commands = list(commands.choices)
    return made


class _Parser(argparse.ArgumentParser):
    """A parser that names the command that was probably meant.

    Attributes:
        commands: The names of all commands.
    """

    commands: Sequence[str] = ()

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # argparse's own
        if value not in self.commands:
            hint = _ELSEWHERE.get(value) or suggestion(value, self.commands)
            self.error(f"there is no command {value!r}.{hint}")
