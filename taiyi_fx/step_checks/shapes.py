"""Shapes that meet by broadcasting, where each sample is to meet itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from taiyi_fx.findings.finding import Finding
from taiyi_fx.recorder.replay.places import Place, place_of
from taiyi_fx.step_checks.axes import sample_axes
from taiyi_fx.step_checks.kinds import BROADCAST
from taiyi_fx.step_checks.trial import Trial

_OF_TWO = frozenset(
    function
    for name in ("add", "sub", "mul", "div", "true_divide", "rsub", "pow", "maximum", "minimum")
    for home in (torch, Tensor)
    if (function := getattr(home, name, None)) is not None
)
_OPERATORS = frozenset(
    getattr(Tensor, f"__{name}__")
    for name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow")
)
_LOSSES = frozenset((F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss))


def broadcast_findings(trial: Trial) -> Iterator[Finding]:
    """A column of one number for each sample that meets a row of such numbers.

    Also where nothing is differentiated, as in the targets of a critic.

    Raises:
        Untried: There is no axis of samples.
    """
    watching = _Watching(sample_axes(trial.batch.tensors()).size)
    trial.run(within=watching)
    if watching.place is None:
        return
    n = watching.size
    where = f"{os.path.basename(watching.place.file)}:{watching.place.line}"
    text = (
        f"shapes ({n}, 1) and ({n},) meet at {where}, and make ({n}, {n}): each sample meets all "
        "others"
    )
    yield BROADCAST.of("", float(n), text, f"({n},)")


class _Watching(TorchFunctionMode):
    """Takes down the first place at which they meet."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.place: Place | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_of_two = func in _OF_TWO or func in _OPERATORS or func in _LOSSES
        if is_of_two and self.place is None and len(args) > 1:
            shapes = {tuple(x.shape) for x in args[:2] if isinstance(x, Tensor)}
            if shapes == {(self.size,), (self.size, 1)}:
                self.place = place_of(sys._getframe(1), {})
        return func(*args, **(kwargs or {}))
