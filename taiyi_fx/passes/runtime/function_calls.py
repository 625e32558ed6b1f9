"""Readings of calls of functions in forwards that stayed Python, seen only at run time."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch._C import _len_torch_function_stack
from torch.overrides import TorchFunctionMode, has_torch_function
from torch.utils import checkpoint

from taiyi_fx.passes.capture.captured import function_name
from taiyi_fx.passes.capture.function_sites import operators_in
from taiyi_fx.passes.capture.source import is_torchs_file
from taiyi_fx.passes.ir import Function, FunctionGroup, Mode, members_of
from taiyi_fx.passes.probes.board import BOARDS
from taiyi_fx.passes.probes.compiling import constant_when_compiled
from taiyi_fx.passes.probes.modes import below_others, unseen
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.runtime.compiled_calls import CompiledCalls
from taiyi_fx.passes.runtime.probed_graph import Forward, ProbedGraph, own_call
from taiyi_fx.passes.runtime.run import Calls, Run
from taiyi_fx.passes.runtime.weights_under_way import WeightsUnderWay, product_slots
from taiyi_fx.passes.structure import Call


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
        sites: Mapping[str, Function | FunctionGroup],
        table: SlotTable,
        run: Run,
        calls: Mapping[str, Calls],
    ) -> None:
        super().__init__()
        self.sites = frozenset(sites)
        self._module = module
        self._names = tuple(sites)
        self.edited = frozenset(s for s in sites if s in table.plan and table.plan[s].changes)
        self._is_edited = bool(self.edited)
        self._edits = ", ".join(map(repr, sorted(self.edited)))
        self._graphs: dict[Function, dict[str, ProbedGraph]] = {}
        self._followed: dict[Function, Function] = {}
        self._run, self._due_key, self._is_due = run, "", False
        self._called: dict[str, Function] = {}
        self._mode: Mode | None = None
        self._has_backward = False
        self._table, self._calls = table, calls
        self._weights = WeightsUnderWay()
        self._of_scores: dict[Function, set[str]] = {}
        self._layers: tuple[type, ...] = ()
        for site, target in sites.items():
            members = members_of(target, module)
            for function in members:
                self._add(function, site)
            if isinstance(target, FunctionGroup):
                self._followed.update((f, _undispatched(f)) for f in target.through)
                self._layers += target.layers
                for function in (f for f in target.of_scores if f not in members):
                    self._add(function, site)
                    self._of_scores.setdefault(function, set()).add(site)
        self._compiled = CompiledCalls(self._graphs, module)

    def _add(self, function: Function, site: str) -> None:
        called, count = functools.partial(self._called.get, site), self._calls[site]
        self._graphs.setdefault(function, {})[site] = own_call(
            site, self._module, called, self._table, self._run, count, function_name(function)
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
        """Refuses an edit that compiled code would leave out; notes that readings are missing.

        Raises:
            RuntimeError: A call of these is edited.
        """
        if self.edited:
            _refuse(
                f"the edit of {self._edits} cannot be made in compiled code: the forward that "
                "makes the call stayed Python, and there only eager code shows calls of functions"
            )
        _note_compiled(self._table.board.key, self._names)

    def around(self, forward: Forward, mode: Mode | None) -> Forward:
        """A forward that runs with this mode on."""

        def run(*args: Any, **kwargs: Any) -> Any:
            outer = self._mode, self._has_backward, self._weights
            self._mode, self._has_backward = mode, torch.is_grad_enabled()
            self._weights = WeightsUnderWay()
            try:
                with self:
                    made = forward(*args, **kwargs)
                self._read_compiled_calls()
                return made
            finally:
                self._compiled.forget()
                self._mode, self._has_backward, self._weights = outer

        return run

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # torch's own untyped protocol
        """The result of a call of torch, between probes if it is of one of the functions."""
        if torch.compiler.is_compiling():  # a compiled function that the forward calls
            made = func(*args, **(kwargs or {}))
            self._compiled.note(func, args, made)
            if self._is_edited and self._compiled.covers(func):
                self.refuse_in_compiled_code()
            return made
        self._read_compiled_calls()
        frame, named = sys._getframe(1), kwargs or {}
        graphs = self._graphs_of(_operator_at(frame) or func, args, named)
        if graphs and self._is_called_by(frame):
            made = self._call(self._read(func, graphs), next(iter(graphs)), args, named)
            self._await_products(func, graphs, args, named, made)
        elif func in self._followed and self._is_called_by(frame):
            return self._follow(func, args, named)
        else:
            made = func(*args, **named)
        unseen(self._weights.pass_on, func, args, named, made)
        if self._of_scores:
            unseen(self._weights.note_scores, func, args, named, made)
        return made

    def _follow(self, func: Function, args: Any, kwargs: Any) -> Any:
        """Calls a function whose own calls are shown to this mode.

        Others that torch would show the function itself come first, and call it again or not: modes
        that are on around the model, and classes of tensors.
        """
        if _len_torch_function_stack():
            with below_others(self):
                return func(*args, **kwargs)
        if has_torch_function((*args, *kwargs.values())):
            return func(*args, **kwargs)
        with self:
            return self._followed[func](*args, **kwargs)

    def _call(self, function: Function, site: str, args: Any, kwargs: Any) -> Any:
        """Calls a function of a site, seen by who follows the forward."""
        observer = self._run.observer
        if observer is None:
            return function(*args, **kwargs)
        call = self._calls[site].count - 1  # counted as its graph was taken
        return observer.around_function(site, call, function, args, kwargs)

    def _read_compiled_calls(self) -> None:
        """Reads the calls that compiled functions have made since the last call of torch."""
        found, has_unread = self._compiled.take()
        if has_unread:
            self._table.board.compiled.update(self._names)
        for call in found:
            self._read(lambda *_, made=call.result: made, self._graphs[call.operator])(*call.args)

    def _graphs_of(self, func: Any, args: Any, kwargs: Any) -> Mapping[str, ProbedGraph]:
        """The graphs of a call by the names of its sites, without those where it does not count."""
        if self._compiled.has_noted(func, args):
            return {}
        graphs = self._graphs.get(func, {})
        others = self._of_scores.get(func)
        if not graphs or not others or self._weights.is_of_scores(args, kwargs):
            return graphs
        return {site: graph for site, graph in graphs.items() if site not in others}

    def _await_products(
        self, func: Function, graphs: Mapping[str, ProbedGraph], args: Any, kwargs: Any, made: Any
    ) -> None:
        """Follows the result of a call where the product that it leads to is read."""
        if self._mode is None:
            return
        name = function_name(func)
        for site in graphs:
            call, due = self._calls[site].count - 1, self._run.due
            groups = product_slots(self._table, due, self._mode, site, call, name)
            self._weights.await_product(made, Call(args, kwargs, name), groups)

    def _read(self, func: Function, graphs: Mapping[str, ProbedGraph]) -> Function:
        """A function between the probes of all its sites, one within the other."""
        for site, graph in graphs.items():
            self._called[site] = func
            func = functools.partial(graph.function(self._mode), self._module)
        return func

    def _is_called_by(self, frame: types.FrameType | None) -> bool:
        """True for a call of the module's own forward, False for one of its parts.

        Raises:
            RuntimeError: The call is edited, and backward will make it again without the edit.
        """
        is_checkpoint = False
        while frame is not None and not self._is_call_of_part(frame):
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

    def _is_call_of_part(self, frame: types.FrameType) -> bool:
        """True if a frame is the call of a module that calls of functions in it belong to."""
        return frame.f_code is _CALL and not isinstance(frame.f_locals["self"], self._layers)


_CALL = nn.Module._call_impl.__code__


def _undispatched(function: Function) -> Function:
    """A copy of a Python function of torch that makes its calls itself.

    The function hands a call on to the mode that is on, and would do so again.
    """
    assert isinstance(function, types.FunctionType)
    scope = {**function.__globals__, "has_torch_function": lambda given: False}
    copy = types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


@constant_when_compiled
def _refuse(text: str) -> None:
    # As ordinary Python, while the compiler traces: torch 2.6 hides the errors of traced code.
    raise RuntimeError(text)


@constant_when_compiled
def _note_compiled(board: str, sites: tuple[str, ...]) -> bool:
    BOARDS[board].compiled.update(sites)
    return True


def _operator_at(frame: types.FrameType | None) -> Function | None:
    """The operator whose instruction led to a call of torch, or None."""
    while frame is not None and is_torchs_file(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else operators_in(frame.f_code).get(frame.f_lasti)
