"""Gradients that code clips when the optimizer's step is over: the next backward makes new ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypeAlias

from taiyi_fx.findings.facts.source.syntax import FUNCTIONS, LOOPS, OWN, called, calls_in, walked

_CLIPS = frozenset("clip_grad_norm_ clip_grad_value_ clip_grad_norm clip_grad_value".split())
_BACKWARDS = re.compile("backward|.+_step$|^train_|optimi[sz]e")
"""The names of functions that call backward, or may do so."""
_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
_Part: TypeAlias = Literal["backward", "clip", "step"]
_Last: TypeAlias = frozenset[_Part]
"""What may have come last, of backward and the optimizer's step; nothing at first."""


def clips_behind_steps(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls that clip gradients behind the optimizer's step, with no backward in between.

    In the order of a loop that has all of them, or else of a function, whichever branch it takes.
    """
    scopes = [node for node in walked(tree) if isinstance(node, (*LOOPS, *FUNCTIONS))]
    functions = (node for node in scopes if isinstance(node, FUNCTIONS))
    helpers = {f.name for f in functions if "backward" in map(_part, calls_in(f))}
    seen = set[int]()
    for scope in reversed(scopes):  # the inner ones first
        parts = {id(call): part for call in calls_in(scope) if (part := _part(call, helpers))}
        if {*parts.values()} < {"backward", "clip", "step"}:
            continue
        at_first = _Order(scope.body, frozenset(), helpers).last
        found = _Order(scope.body, at_first, helpers).behind_steps
        yield from (call for call in found if id(call) not in seen)
        seen |= parts.keys()


class _Order:
    """The order of the calls in some statements.

    Args:
        body: The statements.
        last: What may have come last before them.
        helpers: The names of functions that call backward themselves.

    Attributes:
        last: What may have come last at their end.
        behind_steps: The calls that clip where nothing but a step can have come last.
    """

    def __init__(self, body: Sequence[ast.AST], last: _Last, helpers: Collection[str]) -> None:
        self.last: _Last = last
        self._helpers = helpers
        self.behind_steps: list[ast.Call] = []
        for node in body:
            blocks = [block for name in _BLOCKS if (block := getattr(node, name, []))]
            for call in calls_in(node) if not blocks else ():
                self._meet(call)
            if blocks and not isinstance(node, OWN):
                self._go_through(node, blocks)

    def _meet(self, call: ast.Call) -> None:
        part = _part(call, self._helpers)
        if part == "clip":
            self.behind_steps += [call] if self.last == {"step"} else []
        elif part is not None:
            self.last = frozenset({part})

    def _go_through(self, node: ast.AST, blocks: Sequence[Sequence[ast.AST]]) -> None:
        """Goes through each block of a statement: all one by one, or one of them, or none."""
        if isinstance(node, (ast.With, ast.AsyncWith)):
            blocks = [[*node.items], *blocks]
        if not isinstance(node, (*LOOPS, ast.If, ast.Match, ast.Try)):
            for block in blocks:
                self._enter(block, self.last)
            return
        before, ends = self.last, self.last if _may_take_none(node) else frozenset[_Part]()
        for block in blocks:
            first = before if isinstance(node, (ast.If, ast.Match)) else before | ends
            if isinstance(node, LOOPS):
                first |= _Order(block, first, self._helpers).last
            self._enter(block, first)
            ends |= self.last
        self.last = ends

    def _enter(self, block: Sequence[ast.AST], last: _Last) -> None:
        within = _Order(block, last, self._helpers)
        self.behind_steps += within.behind_steps
        self.last = within.last


def _may_take_none(node: ast.AST) -> bool:
    """True for a statement whose blocks may all be left out."""
    return isinstance(node, (*LOOPS, ast.Match)) or (isinstance(node, ast.If) and not node.orelse)


def _part(call: ast.Call, helpers: Collection[str] = ()) -> _Part | None:
    """The part of a training's step that a call is; None of another.

    Args:
        call: The call.
        helpers: The names of functions that call backward themselves.
    """
    of, name = call.func, called(call)
    if name in _CLIPS:
        return None if "inf" in ast.unparse(call) else "clip"  # which reads the norm alone
    if _BACKWARDS.search(name) or name in helpers:
        return "backward"
    if name != "step" or not isinstance(of, ast.Attribute):
        return None
    whose = ast.unparse(of.value).lower()
    is_optimizer = "opt" in whose and "sched" not in whose and not call.args
    return "step" if is_optimizer or ("scaler" in whose and len(call.args) == 1) else None
