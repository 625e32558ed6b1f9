"""Readings of calls of functions in forwards that stayed Python, seen only at run time."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint

from taiyi_fx.passes.capture.function_sites import Function, operators_in
from taiyi_fx.passes.capture.source import is_torchs_file
from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.runtime.probed_graph import Forward, ProbedGraph, own_call
from taiyi_fx.passes.runtime.run import Calls, Run


class FunctionCalls(TorchFunctionMode):
    """Reads and changes calls of some functions in the forward of one module.

    Entered around that forward alone, and only where there is something to read or change: all
    calls of torch in it then go through here.

    Args:
        module: The module. Calls in its parts belong to those parts.
        sites: The functions, by the names of their sites there.
        table: Takes the readings.
        run: The state of the forward under way, with the due readings.
        calls: The sites' counters.

    Attributes:
        sites: The names of the sites.
        edited: The names of those where values or gradients are changed.
    """

    def __init__(
        self,
        module: nn.Module,
        sites: Mapping[str, Function],
        table: SlotTable,
        run: Run,
        calls: Mapping[str, Calls],
    ) -> None:
        super().__init__()
        self.sites = frozenset(sites)
        self._module = module
        self.edited = frozenset(s for s in sites if s in table.plan and table.plan[s].changes)
        self._edits = ", ".join(map(repr, sorted(self.edited)))
        self._graphs: dict[Function, ProbedGraph] = {}
        self._run, self._due_key, self._is_due = run, "", False
        self._called: Function | None = None
        self._mode: Mode | None = None
        self._has_backward = False
        for site, function in sites.items():
            counter = calls[site]
            self._graphs[function] = own_call(
                site, module, lambda: self._called, table, run, counter
            )

    def are_watched(self) -> bool:
        """True if any of these is due now, or has an edit."""
        if self.edited:
            return True
        if self._due_key != self._run.due_key:
            self._due_key = self._run.due_key
            self._is_due = any(module in self.sites for module, _ in self._run.due)
        return self._is_due

    def refuse_in_compiled_code(self) -> None:
        """Refuses an edit that compiled code would leave out; readings there are just missing.

        Raises:
            RuntimeError: A call of these is edited.
        """
        if self.edited:
            _refuse(
                f"the edit of {self._edits} cannot be made in compiled code: the forward that "
                "makes the call stayed Python, and there only eager code shows calls of functions"
            )

    def around(self, forward: Forward, mode: Mode | None) -> Forward:
        """A forward that runs with this mode on."""

        def run(*args: Any, **kwargs: Any) -> Any:
            outer = self._mode, self._has_backward
            self._mode, self._has_backward = mode, torch.is_grad_enabled()
            try:
                with self:
                    return forward(*args, **kwargs)
            finally:
                self._mode, self._has_backward = outer

        return run

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # torch's own untyped protocol
        """The result of a call of torch, between probes if it is of one of the functions."""
        frame = sys._getframe(1)
        graph = self._graphs.get(_operator_at(frame) or func)
        if graph is None or not self._is_called_by(frame):
            return func(*args, **(kwargs or {}))
        self._called = func
        return graph.function(self._mode)(self._module, *args, **(kwargs or {}))

    def _is_called_by(self, frame: types.FrameType | None) -> bool:
        """True for a call of the module's own forward, False for one of its parts.

        Raises:
            RuntimeError: The call is edited, and backward will make it again without the edit.
        """
        is_checkpoint = False
        while frame is not None and frame.f_code is not _CALL:
            if frame.f_code.co_name == "run" and frame.f_locals.get("self") is self:
                if is_checkpoint and self.edited and self._has_backward:
                    raise RuntimeError(
                        f"the edit of {self._edits} cannot be made in an activation "
                        "checkpoint of a piece of a forward, which backward runs again without it: "
                        "make a module of that piece, as in checkpoint(self.block, x)"
                    )
                return True
            is_checkpoint |= frame.f_code.co_filename == checkpoint.__file__
            frame = frame.f_back
        return frame is not None and frame.f_locals["self"] is self._module


_CALL = nn.Module._call_impl.__code__


@torch.compiler.assume_constant_result
def _refuse(text: str) -> None:
    # As ordinary Python, while the compiler traces: torch 2.6 hides the errors of traced code.
    raise RuntimeError(text)


def _operator_at(frame: types.FrameType | None) -> Function | None:
    """The operator whose instruction led to a call of torch, or None."""
    while frame is not None and is_torchs_file(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else operators_in(frame.f_code).get(frame.f_lasti)
