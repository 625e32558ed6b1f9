"""``taiyi-fx replay``: a bad step from its file, run again on a model."""

from __future__ import annotations

import pdb
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taiyi_fx.cli.command import Commands, command
from taiyi_fx.cli.models import add_model, failure_text, load_model, named
from taiyi_fx.cli.printing import as_json, say
from taiyi_fx.cli.refused import Refused

if TYPE_CHECKING:
    from torch import nn

    from taiyi_fx.recorder.replay.bad_step import BadStep
    from taiyi_fx.recorder.replay.result import Replay

_WENT_WRONG = 1

_EXAMPLES = """
taiyi-fx replay runs/exp1/bad-step.safetensors models:make
taiyi-fx replay bad-step.safetensors models:make --call-args width=64
taiyi-fx replay bad-step.safetensors models:make --step train:step
taiyi-fx replay bad-step.safetensors models:make --pdb
taiyi-fx replay bad-step.safetensors models:make --json
"""


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    about = "run a bad step again, on this machine, and name the operation that it went wrong at"
    added = command(commands, "replay", about, _run, _EXAMPLES)
    added.add_argument("file", metavar="FILE", help="the step, as a recorder wrote it")
    add_model(added)
    added.add_argument(
        "--step",
        metavar="FUNCTION",
        help="module:function, the one that recorder.step was given: with it, the loss runs again",
    )
    added.add_argument(
        "--pdb", action="store_true", help="stop in the debugger at the line of the operation"
    )
    added.add_argument("--json", action="store_true", help="what was found, as JSON")


def _run(given: Namespace) -> int:
    bad, model, step = _loaded(given), load_model(given), _step_function(given)
    from taiyi_fx.recorder.replay.replayer import CannotReplay
    from taiyi_fx.recorder.replay.step_function import StepFunctionFailed

    try:
        found = bad.run_on(model, step)
        if given.pdb and found.file:
            _debug(bad, model, step, found)
    except StepFunctionFailed as error:
        raise Refused(f"{error}; without --step the calls of the model are run again") from error
    except (ValueError, CannotReplay) as error:
        raise Refused(str(error)) from error
    except Exception as error:  # the user's own code
        raise Refused(failure_text(f"running {given.model}", error)) from error
    _say(bad, found, given.json)
    return _WENT_WRONG if found.operation else 0


def _loaded(given: Namespace) -> BadStep:
    from taiyi_fx.recorder.replay.bad_step import load_bad_step

    try:
        return load_bad_step(Path(given.file))
    except (OSError, ValueError) as error:
        raise Refused(f"{given.file} cannot be read: {error}") from error


def _step_function(given: Namespace) -> Callable[..., Any] | None:
    if given.step is None:
        return None
    found = named(given.step, "--step is module:function, such as train:step")
    if not callable(found):
        raise Refused(f"{given.step} is a {type(found).__name__}, which is no function")
    return found


def _debug(bad: BadStep, model: nn.Module, step: Callable[..., Any] | None, found: Replay) -> None:
    """Runs the step under the debugger, which stops at the line that was found."""
    say(str(found))
    debugger = pdb.Pdb()
    debugger.rcLines.append("continue")  # past its first stop, which is in this package
    problem = debugger.set_break(found.file, found.line)
    if problem:
        raise Refused(f"the debugger cannot stop at {found.file}:{found.line}: {problem}")
    debugger.runcall(bad.run_on, model, step)


def _say(bad: BadStep, found: Replay, wants_json: bool) -> None:
    if wants_json:
        say(as_json(found.as_dict()))
        return
    say(str(found))
    then = bad.replay
    if (then.operation, then.phase) != (found.operation, found.phase):
        say(f"where it happened, it was\n{then}")
