"""A module's forward while it is read: a graph that stands in for it, or its own Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from taiyi_fx.passes.ir import Mode
from taiyi_fx.passes.override import ForwardOverride, forward_of_class
from taiyi_fx.passes.probes.board import Board
from taiyi_fx.passes.probes.compiled import end_forward
from taiyi_fx.passes.probes.compiling import (
    is_in_a_body,
    make_room_for_graphs,
    stays_python,
)
from taiyi_fx.passes.rewrite.model_lines import with_model_lines
from taiyi_fx.passes.runtime.function_calls import FunctionCalls
from taiyi_fx.passes.runtime.guarded_graph import GuardedGraph
from taiyi_fx.passes.runtime.probed_graph import Forward, ProbedGraph
from taiyi_fx.passes.runtime.run import Run


class Dispatcher(ForwardOverride):
    """A module's forward: the first graph that stands in for it now, else its Python.

    Attributes:
        graphs: The graphs that may stand in.
        own_call: The graph of the module's own call, around its Python, if it is a target.
        functions: Reads calls of functions in its Python, or None.
        sites: Names of the targets that its graphs and its Python call.
        before_python: Installs the overrides of its parts, before its Python calls them.
        edited: Names of the targets with edits, which apply even if nothing is due.
        is_rewritten: True if the user's own passes made its graphs, which then run at each call.
    """

    is_rewritten = False
    before_python: Callable[[], None] | None = None
    sites: frozenset[str] = frozenset()
    edited: frozenset[str] = frozenset()

    def __init__(self, module: nn.Module, run: Run, board: Board) -> None:
        super().__init__(module)
        self.run = run
        self.board = board
        self.graphs: list[GuardedGraph] = []
        self.own_call: ProbedGraph | None = None
        self.functions: FunctionCalls | None = None

    def original_forward(self) -> Forward:
        """The forward that would run without this one, with readings of its calls of functions."""
        forward, functions, run = super().original_forward(), self.functions, self.run
        if functions is None or not functions.are_watched():
            return forward
        if torch.compiler.is_compiling():
            functions.refuse_in_compiled_code()
            return forward
        return functions.around(forward, run.mode_here())

    def is_read_by_another(self, reader: Run) -> bool:
        """True if a forward of another instrumented object runs, and this one is part of it."""
        return self.run is not reader and self.run.is_here

    @property
    def changes_values(self) -> bool:
        """True if it has to run even if nothing is read."""
        return bool(self.edited) or self.is_rewritten

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        run, board = self.run, self.board
        mode, is_compiling = run.mode_here(), torch.compiler.is_compiling()
        copied = None if is_compiling else self.copy_called()
        if copied is not None:
            return forward_of_class(copied)(*args, **kwargs)
        if mode is None and not (self.changes_values and (run.is_here or run.is_run_again)):
            return self.original_forward()(*args, **kwargs)
        if mode is None or board.is_open or not is_compiling:
            return self._read(mode, args, kwargs)
        make_room_for_graphs()
        if is_in_a_body():  # of a function of the model's own: what is read cannot leave it
            return self.original_forward()(*args, **kwargs)
        board.is_open = True
        try:
            value = self._read(mode, args, kwargs)
        finally:
            board.is_open = False
        end_forward(board)
        return value

    def _read(self, mode: Mode | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        graph = self._graph()
        if self.before_python is not None and graph not in self.graphs:
            self.before_python()
        if graph is None:
            return self.original_forward()(*args, **kwargs)
        if torch.compiler.is_compiling():
            return graph.compiled(mode, self.run.due_key)(self.module, *args, **kwargs)
        function = graph.function(mode, args, kwargs)
        try:
            return function(self.module, *args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - raised again
            if mode is not None:
                graph.undo(mode)  # a failed call, whose error the model may catch, does not count
            # This frame comes again by itself; none of its names may hold what it leads to.
            raise error.with_traceback(  # noqa: B904 - the same error
                with_model_lines(error.__traceback__ and error.__traceback__.tb_next)
            )

    def _graph(self) -> ProbedGraph | None:
        """The graph that runs at this call, or None."""
        for graph in self.graphs if self.below is None else ():
            if graph.guards_pass():
                return graph
        self._refuse_without_graph()
        return self.own_call

    def _refuse_without_graph(self) -> None:
        """Refuses to run the Python where a changed graph should run.

        Raises:
            RuntimeError: The user's own passes, or `recompile`, made one.
        """
        if self.is_rewritten:
            (first, *others), training = self.graphs, self.module.training
            if first.is_edited and not others and first.training is (not training):
                mode, switch = ("training", "train") if training else ("evaluation", "eval")
                raise RuntimeError(
                    f"the model's graph was edited and recompiled for another mode than {mode}, "
                    "where its code goes another way: do the same with `instrumented.graph` after "
                    f"`instrumented.{switch}()`, or give the edit to instrument in `passes`, which "
                    "are applied to both graphs"
                )
            part = self.graphs[0].captured.part or "the model"
            raise RuntimeError(
                f"what the passes made of {part!r} cannot run: it has changed since it was "
                "traced, or has hooks; instrument it again as it is now"
            )


stays_python(Dispatcher.copy_called)
