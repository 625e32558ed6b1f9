"""Steps of a gradient scaler that code leaves out: it clips scaled gradients, or never updates."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import called, calls_in, scopes_of, walked, whose

_CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_"})


def scaled_clips(tree: ast.Module) -> Iterator[ast.expr]:
    """The calls that clip gradients which a scaler has scaled, where nothing unscales them."""
    if "unscale_" in _names(tree):
        return
    for scope in scopes_of(tree):
        calls = calls_in(scope)
        scales = any(_is_scaled_backward(call) for call in calls)
        steps = any(called(call) == "step" and call.args and _is_scaler(call) for call in calls)
        clips = [call for call in calls if called(call) in _CLIPS]
        if scales and steps and len(clips) and not _is_optional(scope):
            yield from clips


def _is_optional(scope: ast.AST) -> bool:
    """True for code that has another way, without a scaler, in which clipping may lie."""
    backwards = [call for call in calls_in(scope) if called(call) == "backward"]
    return not all(map(_is_scaled_backward, backwards))


def scalers_never_updated(tree: ast.Module) -> Iterator[ast.expr]:
    """The steps of a scaler that is never updated: one that has skipped a step goes on to."""
    every = [x for x in walked(tree) if isinstance(x, ast.Call)]
    updates = {whose(call) for call in every if called(call) == "update"}
    for scope in scopes_of(tree):
        calls = calls_in(scope)
        steps = [call for call in calls if called(call) == "step" and call.args]
        steps = [call for call in steps if _is_scaler(call)]
        if any(map(_is_scaled_backward, calls)):
            yield from (call for call in steps if whose(call) not in updates)


def _is_scaled_backward(call: ast.Call) -> bool:
    """True for ``scaler.scale(loss).backward()``."""
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    return called(call) == "backward" and isinstance(of, ast.Call) and called(of) == "scale"


def _is_scaler(call: ast.Call) -> bool:
    return "scaler" in whose(call).lower()


def _names(tree: ast.AST) -> set[str]:
    return {x.attr for x in walked(tree) if isinstance(x, ast.Attribute)}
