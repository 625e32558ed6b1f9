"""What a forward under way is read as, and what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from taiyi_fx.passes.ir import Due, Mode

if TYPE_CHECKING:
    from taiyi_fx.passes.flow import Observer

_NOTHING_DUE = "due0"
_is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # not there in torch 2.6


class Calls:
    """Counts the calls of one target.

    Attributes:
        count: Calls since the root's forward began.
    """

    count = 0


class Run:
    """What a forward under way is read as.

    Attributes:
        inside: Whether the root's forward is running.
        mode: If so, how its readings are kept; None reads nothing.
        record_eval: Whether forwards in eval mode are read too, apart from training.
        due: The readings due.
        due_key: A name for each set of due readings: compiled code takes a text for a constant,
            where it would make a variable of a number that changes.
        observer: What follows the forward under way, if anything does.
    """

    def __init__(self, record_eval: bool) -> None:
        self.inside = False
        self.mode: Mode | None = None
        self.record_eval = record_eval
        self.due: Due = frozenset()
        self.due_key = _NOTHING_DUE
        self.observer: Observer | None = None
        self._keys = {self.due: self.due_key}

    def set_due(self, due: Due) -> None:
        """Makes these the due readings."""
        self.due = due
        self.due_key = self._keys.setdefault(due, f"due{len(self._keys)}")

    def mode_of(self, module: nn.Module) -> Mode | None:
        """How a forward of this module is read, starting now.

        A forward counts that builds a graph in training. One that runs inside backward is the
        second run of an activation checkpoint and does not; nor does one in a transform of
        ``torch.func``. An exported program leaves no readings behind.
        """
        if self.due_key == _NOTHING_DUE:
            return None
        if torch.compiler.is_compiling():
            if _is_exporting() or _is_transform_active():
                return None
            return self.mode if self.inside else self._mode_of_forward(module)
        if torch._C._are_functorch_transforms_active():
            return None  # what is there then are no tensors that could be kept
        if self.inside:
            return self.mode
        if torch._C._current_graph_task_id() != -1:
            return None
        return self._mode_of_forward(module)

    def _mode_of_forward(self, module: nn.Module) -> Mode | None:
        if module.training:
            return "train" if torch.is_grad_enabled() else None
        return "eval" if self.record_eval else None


@torch.compiler.assume_constant_result
def _is_transform_active() -> bool:
    return torch._C._are_functorch_transforms_active()
