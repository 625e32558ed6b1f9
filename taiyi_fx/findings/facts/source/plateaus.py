"""Schedules that wait for a plateau of what they take to get better the other way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taiyi_fx.findings.facts.source.syntax import called, made_by, walked, whose

_PLATEAU = frozenset({"ReduceLROnPlateau"})
_SMALL = re.compile(
    r"(^|_)(loss(es)?|errors?|err|mse|rmse|mae|nll|ppl|perplexity|[cf]id|wer|cer)(_|$)"
)
_LARGE = re.compile(r"(^|_)(acc(uracy)?|f1|auc|auroc|iou|miou|m?ap|psnr|ssim|bleu|r2|top1)(_|$)")


def turned_plateaus(tree: ast.Module) -> Iterator[ast.expr]:
    """The steps of a plateau's schedule by a number that gets better the other way.

    As ``ReduceLROnPlateau(optimizer, mode="max")`` that is given a loss, or one without a mode that
    is given an accuracy, by these names.
    """
    modes: dict[str, set[str]] = {}
    for name, call in made_by(_PLATEAU, walked(tree)):
        modes.setdefault(name, set()).add(_mode_of(call))
    for call in (x for x in walked(tree) if isinstance(x, ast.Call) and modes):
        given = [*call.args, *(x.value for x in call.keywords if x.arg == "metrics")]
        if called(call) == "step" and given and modes.get(whose(call)) == {_wrong_for(given[0])}:
            yield call


def _mode_of(call: ast.Call) -> str:
    """The mode of a schedule, as it is written; empty of one that is computed."""
    told = [x.value for x in call.keywords if x.arg == "mode"] or call.args[1:2]
    if any(x.arg is None for x in call.keywords):
        return ""
    mode = told[0] if told else ast.Constant("min")
    return str(mode.value) if isinstance(mode, ast.Constant) else ""


def _wrong_for(value: ast.expr) -> str:
    """The mode that is wrong for a number by its name; one that none has where it is not known."""
    if isinstance(value, ast.UnaryOp | ast.BinOp):
        return "unknown"
    text = ast.unparse(value).lower().replace("map(", "(")  # Python's own
    names = re.findall(r"[a-z_0-9]+", text)
    small, large = any(map(_SMALL.search, names)), any(map(_LARGE.search, names))
    if small == large:
        return "unknown"
    return "max" if small else "min"
