"""``taiyi-fx doctor``: a list of what is installed, missing or broken."""

from __future__ import annotations

from argparse import Namespace

from taiyi_fx.cli.command import Commands, command
from taiyi_fx.cli.printing import as_json, say, table

_EXAMPLES = """
taiyi-fx doctor
taiyi-fx doctor --json
"""


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    summary = "check what is installed, and that it works"
    added = command(commands, "doctor", summary, _run, _EXAMPLES)
    added.add_argument("--json", action="store_true", help="the same as JSON")


def _run(given: Namespace) -> int:
    from taiyi_fx.cli.environment import checked_environment

    found = checked_environment()
    if given.json:
        say(as_json([one._asdict() for one in found]))
    else:
        say(table(("state", "what", "found"), [tuple(one) for one in found]))
    return 1 if any(one.state == "broken" for one in found) else 0
