"""Ends of texts that are left out of the loss with the padding."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import called, walked

_IGNORED = "-100"


def ends_as_padding(tree: ast.Module) -> Iterator[ast.expr]:
    """The places that leave all padding out of the targets, where padding is the end of a text.

    As ``labels[labels == tokenizer.pad_token_id] = -100`` behind ``tokenizer.pad_token =
    tokenizer.eos_token``: the model never learns where a text ends.
    """
    sets = [x for x in walked(tree) if isinstance(x, ast.Assign)]
    if not any(_is_end(node) for node in sets):
        return
    for node in sets:
        for target in node.targets:
            is_left_out = isinstance(target, ast.Subscript) and _is_of_padding(target.slice)
            if is_left_out and ast.unparse(node.value) == _IGNORED:
                yield target
    for call in (x for x in walked(tree) if isinstance(x, ast.Call)):
        is_fill = called(call) in ("masked_fill", "masked_fill_") and len(call.args) == 2
        is_left_out = is_fill and ast.unparse(call.args[1]) == _IGNORED
        if is_left_out and _is_of_padding(call.args[0]):
            yield call


def _is_end(node: ast.Assign) -> bool:
    """True where the token of padding is set to that of the end."""
    value = ast.unparse(node.value)
    return value.endswith(("eos_token", "eos_token_id")) and any(
        ast.unparse(target).endswith(("pad_token", "pad_token_id")) for target in node.targets
    )


def _is_of_padding(value: ast.expr) -> bool:
    return isinstance(value, ast.Compare) and any(
        ast.unparse(side).endswith("pad_token_id") for side in (value.left, *value.comparators)
    )
