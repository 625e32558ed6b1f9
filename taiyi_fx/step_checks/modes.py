"""Functions that behave as in training though all modules are in evaluation mode."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from taiyi_fx.findings.finding import Finding
from taiyi_fx.passes.module_tree import named_modules
from taiyi_fx.recorder.replay.places import Place, place_of
from taiyi_fx.step_checks.kinds import UNSWITCHED_MODE
from taiyi_fx.step_checks.trial import Trial


class _Argument(NamedTuple):
    """The argument of a function that has it behave as in training.

    Attributes:
        name: Its name.
        position: Where it stands.
        default: What it is if it is not given.
    """

    name: str
    position: int
    default: Any

    def of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Its value in a call."""
        given = args[self.position] if len(args) > self.position else self.default
        return kwargs.get(self.name, given)


_TRAINING = _Argument("training", 2, default=True)
_SHARE = _Argument("p", 1, default=0.5)
_DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d)
_OTHER_DROPOUTS = (F.alpha_dropout, F.feature_alpha_dropout)
_OTHER_TRAINING = _Argument("training", 2, default=False)
_AVERAGES = _Argument("running_mean", 1, default=None)
_BATCH_NORM = _Argument("training", 5, default=False)
_ATTENTION = _Argument("dropout_p", 4, default=0.0)


def mode_findings(trial: Trial) -> Iterator[Finding]:
    """Dropouts and batch norms that are as in training in evaluation mode."""
    watching = _Watching({id(vars(m)): name for name, m in named_modules(trial.models[""])})
    trial.evaluating().run(within=watching)
    for what, place in watching.found.items():
        where = f"{os.path.basename(place.file)}:{place.line}"
        text = f"{what} at {where} is as in training, with all modules in evaluation mode"
        yield UNSWITCHED_MODE.of(place.module, 1.0, text)


class _Watching(TorchFunctionMode):
    """Takes down the first place of each kind of such calls."""

    def __init__(self, names: Mapping[int, str]) -> None:
        super().__init__()
        self.found: dict[str, Place] = {}
        self._names = names

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        what = _as_in_training(func, args, kwargs or {})
        if what and what not in self.found:
            self.found[what] = place_of(sys._getframe(1), self._names)
        return func(*args, **(kwargs or {}))


def _as_in_training(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The name of what behaves as in training in a call; empty if nothing does."""
    if func in _DROPOUTS:
        return "dropout" if _TRAINING.of(args, kwargs) and _SHARE.of(args, kwargs) else ""
    if func in _OTHER_DROPOUTS:
        return "dropout" if _OTHER_TRAINING.of(args, kwargs) and _SHARE.of(args, kwargs) else ""
    if func is F.scaled_dot_product_attention:
        return "the dropout of an attention" if _ATTENTION.of(args, kwargs) else ""
    # Without averages it has nothing else to go by.
    is_norm = func is F.batch_norm and _AVERAGES.of(args, kwargs) is not None
    return "batch norm" if is_norm and _BATCH_NORM.of(args, kwargs) else ""
