"""``taiyi-fx report``: a run as one file to open in a browser."""

from __future__ import annotations

import webbrowser
from argparse import Namespace
from pathlib import Path

from taiyi_fx.cli.command import Commands, command
from taiyi_fx.cli.groups import GROUPS, groups_of
from taiyi_fx.cli.printing import say
from taiyi_fx.cli.refused import Refused

_EXAMPLES = """
taiyi-fx report runs/exp1
taiyi-fx report runs/exp1 -o exp1.html --open
taiyi-fx report runs/exp2 --compare runs/exp1 -o both.html --force
taiyi-fx report 'runs/old-*' 'runs/new-*' -o seeds.html
"""


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    added = command(
        commands, "report", "write a page with all that a run recorded", _run, _EXAMPLES
    )
    added.add_argument(
        "paths", metavar="RUN", nargs="+", help=f"the run, or several, side by side; {GROUPS}"
    )
    added.add_argument(
        "-o", "--output", "--to", metavar="FILE", help="the page (default: RUN's name and .html)"
    )
    added.add_argument(
        "--compare", metavar="RUN", action="append", default=[], help="the same as one more RUN"
    )
    added.add_argument("--force", action="store_true", help="replace FILE if it is there")
    added.add_argument("--open", action="store_true", help="open it in a browser")


def _run(given: Namespace) -> int:
    from taiyi_fx.pictures.report import report

    groups = groups_of([*given.paths, *given.compare])
    name = Path(groups[0][0]).absolute().name
    output = Path(given.output if given.output is not None else f"{name}.html")
    if output.exists() and not given.force:
        raise Refused(f"{output} is there already: --force replaces it")
    try:
        made = report(*groups, path=output)
    except (OSError, ValueError, ImportError) as error:
        raise Refused(str(error)) from error
    say(f"{made}: {made.stat().st_size / 1e6:.1f} MB")
    if given.open:
        webbrowser.open(made.absolute().as_uri())
    return 0
