"""``taiyi-fx targets``: the modules that a key of a configuration matches."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from taiyi_fx.cli.command import Commands, command
from taiyi_fx.cli.models import add_model, load_model
from taiyi_fx.cli.printing import many, say, table

if TYPE_CHECKING:
    from torch import nn

_EXAMPLES = """
taiyi-fx targets models:net Conv2d
taiyi-fx targets models:net 'layer*.conv1'
taiyi-fx targets models:net torch.nn.functional.relu
taiyi-fx targets torch.nn:Linear Linear --call-args in_features=4 out_features=2
"""


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    added = command(commands, "targets", "show what a key matches", _run, _EXAMPLES)
    add_model(added)
    added.add_argument(
        "key",
        metavar="KEY",
        help="a module's name, a class's name, a pattern, or a path such as torch.nn.Linear (with "
        "its subclasses) or operator.add (its calls)",
    )


def _run(given: Namespace) -> int:
    from taiyi_fx.config.match import is_function, match, resolved

    model = load_model(given)
    key = resolved(model, given.key)
    if is_function(key):
        return _show_calls(model, given.key, key)
    problems: list[str] = []
    found = match(model, key, repr(given.key), problems)
    if problems:
        say("\n".join(problems), sys.stderr)
        return 1
    say(table(("module", "class", "parameters"), _rows(found)))
    say(f"{given.key!r} matches {many(len(found), 'module')}")
    return 0


def _rows(modules: Mapping[str, nn.Module]) -> list[tuple[str, ...]]:
    return [
        (name or "(the model)", type(module).__name__, _shapes(module))
        for name, module in modules.items()
    ]


def _shapes(module: nn.Module) -> str:
    from torch.nn.parameter import UninitializedParameter

    own = module.named_parameters(recurse=False)
    return ", ".join(
        f"{name} {'not yet' if isinstance(p, UninitializedParameter) else tuple(p.shape)}"
        for name, p in own
    )


def _show_calls(model: nn.Module, text: str, function: Any) -> int:
    from taiyi_fx.config.check import check
    from taiyi_fx.config.function_targets import not_shown
    from taiyi_fx.passes.capture.trace import trace

    capture = trace(model, check(model, {function: []}).targets())
    if not capture.functions:
        say(f"{text!r}: {not_shown(function, model, capture)}", sys.stderr)
        return 1
    say(table(("call",), [(name,) for name in capture.functions]))
    say(f"{text!r} matches {many(len(capture.functions), 'call')}")
    return 0
