"""Models that a command line names: ``module:callable``."""

from __future__ import annotations

import ast
import importlib
import os
import sys
import traceback
from argparse import ArgumentParser, Namespace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from taiyi_fx.cli.refused import Refused
from taiyi_fx.suggestion import suggestion

if TYPE_CHECKING:
    from torch import nn


def add_model(command: ArgumentParser) -> None:
    """Adds the arguments that name a model."""
    command.add_argument("model", metavar="MODEL", help="module:callable, such as models:resnet")
    command.add_argument(
        "--call-args",
        metavar="NAME=VALUE",
        nargs="+",
        default=[],
        help="arguments of the callable: Python literals, anything else as text",
    )
    command.add_argument(
        "--device",
        choices=("cpu", "meta"),
        default="cpu",
        help="where it is made; on meta, weights take no memory (default: cpu)",
    )


def load_model(given: Namespace) -> nn.Module:
    """The model that the arguments name.

    Raises:
        Refused: There is none, or its own code failed.
    """
    import torch
    from torch import nn

    arguments = dict(map(_argument, given.call_args))
    found = named(given.model, "MODEL is module:callable, such as models:resnet")
    if isinstance(found, nn.Module):
        return found
    if not callable(found):
        kind = type(found).__name__
        raise Refused(f"{given.model} is a {kind}, which is neither a model nor callable")
    try:
        with torch.device(given.device):
            made = found(**arguments)
    except (Exception, SystemExit) as error:  # the user's own code
        raise Refused(failure_text(f"calling {given.model}", error)) from error
    if not isinstance(made, nn.Module):
        raise Refused(f"{given.model} returned a {type(made).__name__}, not a torch.nn.Module")
    return made


def failure_text(what: str, error: BaseException) -> str:
    """A failure in the user's own code as text: its message and its traceback."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [f for f in frames if not f.filename.startswith("<frozen importlib")]
    return f"{what} raised {type(error).__name__}: {error}\n{''.join(traceback.format_list(own))}"


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise Refused(f"--call-args takes NAME=VALUE, such as width=64, not {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # no literal
        return name, value


def named(text: str, form: str) -> Any:
    """The object that ``module:path`` names.

    Args:
        text: The name.
        form: The expected form in words, for the error.

    Raises:
        Refused: It has another form, or there is no such thing; or importing it failed.
    """
    module_name, colon, path = text.partition(":")
    if not (module_name and colon and path):
        raise Refused(f"{form}, not {text!r}")
    found: Any = _imported(module_name)
    for name in path.split("."):
        if not hasattr(found, name):
            known = [word for word in dir(found) if not word.startswith("_")]
            raise Refused(f"{module_name} has no {path!r}.{suggestion(name, known)}")
        found = getattr(found, name)
    return found


def _imported(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise Refused(
                f"no module {error.name!r} is in the working directory, or installed: run this "
                "where `import` finds it, or set PYTHONPATH"
            ) from error
        raise Refused(failure_text(f"importing {name}", error)) from error
    except (Exception, SystemExit) as error:  # the user's own code
        raise Refused(failure_text(f"importing {name}", error)) from error
