"""`verify` for a model and a batch that a command line names."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from taiyi_fx.cli.cfg_files import read_cfg
from taiyi_fx.cli.models import failure_text, load_model, named
from taiyi_fx.cli.refused import Refused

if TYPE_CHECKING:
    from taiyi_fx import Verification

_FORM = "BATCH is module:callable, such as models:batch, or a shape, such as 8x3x32x32"


def verified(given: Namespace) -> Verification:
    """The verification of the named model on the named batch.

    Raises:
        Refused: There is no such batch, or the model does not run on it.
    """
    from taiyi_fx import verify

    args, kwargs = batch_of(given.run_on)
    if given.device == "meta":
        raise Refused("--run takes a model with weights: leave out --device meta")
    model, cfg = load_model(given), read_cfg(given.cfg).cfg
    try:
        return verify(model, cfg, *args, **kwargs)
    except Exception as error:  # the user's own code
        raise Refused(failure_text(f"running {given.model}", error)) from error


def batch_of(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, by position and by name, that a forward is given.

    Raises:
        Refused: What is named is not there, or its own code failed.
    """
    made = _random(text) if re.fullmatch(r"\d+(x\d+)*", text) else _made(text)
    if isinstance(made, tuple):
        return made, {}
    if isinstance(made, Mapping):
        return (), {str(name): value for name, value in made.items()}
    return (made,), {}


def _random(text: str) -> Any:
    import torch

    shape = [int(size) for size in text.split("x")]
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def _made(text: str) -> Any:
    found = named(text, _FORM)
    if not callable(found):
        return found
    try:
        return found()
    except (Exception, SystemExit) as error:  # the user's own code
        raise Refused(failure_text(f"calling {text}", error)) from error
