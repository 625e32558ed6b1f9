"""``taiyi-fx watch``: a run's page in a browser, while the run goes on."""

from __future__ import annotations

import webbrowser
from argparse import Namespace

from taiyi_fx.cli.command import Commands, command, whole
from taiyi_fx.cli.printing import say
from taiyi_fx.cli.refused import Refused

_EXAMPLES = """
taiyi-fx watch runs/exp1
taiyi-fx watch runs/exp1 --port 8123 --open
"""


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    added = command(
        commands, "watch", "show a run in a browser while it is recorded", _run, _EXAMPLES
    )
    added.add_argument("path", metavar="RUN", help="the run's folder")
    added.add_argument(
        "--port", type=whole, default=0, help="where to listen on 127.0.0.1 (default: a free one)"
    )
    added.add_argument("--open", action="store_true", help="open it in a browser")


def _run(given: Namespace) -> int:
    from taiyi_fx.pictures.report.serve import Server

    try:
        server = Server(given.path, given.port)
    except (OSError, ValueError, ImportError) as error:
        raise Refused(str(error)) from error
    with server:
        say(f"{server.address}\nAnyone on this machine with the address can look. Ctrl-C ends it.")
        if given.open:
            webbrowser.open(server.address)
        try:
            server.serve()
        except KeyboardInterrupt:
            return 0
    return 0
