"""``taiyi-fx graph``: a picture of a model with its probes."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace

from taiyi_fx.cli.cfg_files import add_cfg
from taiyi_fx.cli.command import Commands, command
from taiyi_fx.cli.instrumenting import instrumented
from taiyi_fx.cli.models import add_model
from taiyi_fx.cli.printing import say
from taiyi_fx.cli.refused import Refused

_EXAMPLES = """
taiyi-fx graph models:net probes.yaml -o probes.svg
taiyi-fx graph models:net probes.yaml -o probes.dot --depth full
taiyi-fx graph models:net probes.yaml -o probes.png --depth 1 --expand layer4.1 --direction LR
"""


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    added = command(commands, "graph", "draw a model with its probes", _run, _EXAMPLES)
    add_model(added)
    add_cfg(added)
    added.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="in the format of its suffix"
    )
    added.add_argument(
        "--depth",
        type=_depth,
        default="auto",
        help="how many levels of modules are open: a number, auto (some 60 boxes) or full",
    )
    added.add_argument(
        "--expand",
        metavar="MODULE",
        action="append",
        default=[],
        help="one more module to open; may be given several times",
    )
    added.add_argument(
        "--only-probed", action="store_true", help="leave out boxes with nothing read in them"
    )
    added.add_argument(
        "--direction",
        choices=("TB", "LR", "BT", "RL"),
        default="TB",
        help="the direction of the data flow",
    )


def _depth(text: str) -> int | str:
    if text in ("auto", "full"):
        return text
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is neither a number of levels nor auto nor full")
    return int(text)


def _run(given: Namespace) -> int:
    from taiyi_fx import diagram
    from taiyi_fx.pictures.diagram import EngineMissing

    made = instrumented(given)
    if made is None:
        return 1
    try:
        drawn = diagram(
            made,
            given.depth,
            given.expand,
            only_probed=given.only_probed,
            direction=given.direction,
        )
        path = drawn.write(given.output)
    except (LookupError, ValueError, OSError, EngineMissing) as error:
        raise Refused(str(error)) from error
    say(f"{path}: {repr(drawn).strip('<>')}")
    return 0
