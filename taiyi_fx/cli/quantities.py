"""``taiyi-fx quantities``: a list of the quantities."""

from __future__ import annotations

from argparse import Namespace

from taiyi_fx.cli.command import Commands, command
from taiyi_fx.cli.printing import say
from taiyi_fx.cli.refused import Refused

_EXAMPLES = """
taiyi-fx quantities
taiyi-fx quantities InputCovCondition
"""


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    added = command(commands, "quantities", "list the quantities", _run, _EXAMPLES)
    added.add_argument("name", metavar="NAME", nargs="?", help="show all details of this one")


def _run(given: Namespace) -> int:
    from taiyi_fx.quantities.catalogue import quantities

    every = quantities()
    if given.name is None:
        say(str(every))
        return 0
    try:
        say(str(every[given.name]))
    except KeyError as error:
        raise Refused(error.args[0]) from error
    return 0
