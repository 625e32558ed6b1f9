"""``taiyi-fx graph``: where the probes stand, as a picture."""

from __future__ import annotations

from argparse import Namespace

from taiyi_fx.cli.cfg_files import add_cfg
from taiyi_fx.cli.command import Commands, command
from taiyi_fx.cli.instrumenting import instrumented
from taiyi_fx.cli.models import add_model
from taiyi_fx.cli.printing import say
from taiyi_fx.cli.refused import Refused

_EXAMPLES = """
taiyi-fx graph models:net probes.yaml -o probes.svg
taiyi-fx graph models:net probes.yaml -o probes.dot
"""


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    added = command(commands, "graph", "draw a model with its probes", _run, _EXAMPLES)
    add_model(added)
    add_cfg(added)
    added.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="in the format of its suffix"
    )


def _run(given: Namespace) -> int:
    from taiyi_fx import diagram
    from taiyi_fx.dot import EngineMissing

    made = instrumented(given)
    if made is None:
        return 1
    drawn = diagram(made)
    try:
        path = drawn.write(given.output)
    except (ValueError, OSError, EngineMissing) as error:
        raise Refused(str(error)) from error
    say(f"{path}: {repr(drawn).strip('<>')}")
    return 0
