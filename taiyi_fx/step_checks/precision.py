"""Digits that a step loses, compared with the same step in float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from taiyi_fx.findings.finding import Finding
from taiyi_fx.step_checks.blame import first_wrong
from taiyi_fx.step_checks.kinds import LOST_PRECISION
from taiyi_fx.step_checks.trial import Trials
from taiyi_fx.step_checks.untried import Untried

_LOST = 1e-2
"""A relative error of float32 that is no rounding any more."""
_BEGINS = 1e-3
"""The error of a module's output at which digits begin to be lost."""
_HALVES = (torch.float16, torch.bfloat16)


def precision_findings(trials: Trials) -> Iterator[Finding]:
    """A loss, or a gradient, of which the model's own type knows no two digits.

    Args:
        trials: Makes the step in a type.

    Raises:
        Untried: A part is in half precision, or other random numbers are drawn in float64.
        Exception: It does not run in float64.
    """
    with trials(None, shakes=False) as own:
        found = own.evaluating().run(records=True, differentiates=True)
    if any(x.dtype in _HALVES for call in found.calls for x in call.outputs):
        raise Untried("a part of it is in half precision")
    with trials(torch.float64, shakes=False) as exact:
        expected = exact.evaluating().run(records=True, differentiates=True)
    if not torch.equal(found.generator, expected.generator):
        raise Untried("the step draws other random numbers in float64")
    loss, exactly = found.loss.item(), expected.loss.item()
    is_lost = abs(loss - exactly) > _LOST * max(abs(exactly), _LOST)
    error = _error(_joined(expected.gradients), _joined(found.gradients))
    if not is_lost and error <= _LOST:
        return
    blame = first_wrong(expected.calls, found.calls, _is_near)
    text = (
        f"the loss of one batch is {loss:.6g}, and {exactly:.6g} where all of it is computed in "
        f"float64; the gradient differs by {error:.2g} of its norm; {blame}"
    )
    yield LOST_PRECISION.of(blame.module, loss, text, f"{exactly:.6g}")


def _joined(gradients: Mapping[str, Tensor | None]) -> Tensor:
    known = [x.to_dense().double().flatten() for x in gradients.values() if x is not None]
    return torch.cat(known) if known else torch.zeros(1)


def _is_near(x: Tensor, y: Tensor) -> bool:
    return x.shape != y.shape or _error(x, y) <= _BEGINS


def _error(x: Tensor, y: Tensor) -> float:
    """The relative distance of a tensor from the exact one; 0 for what is not of real numbers."""
    if not (x.is_floating_point() and y.is_floating_point() and x.numel()):
        return 0.0
    x, y = x.double(), y.double()
    known = x.isfinite()
    if not torch.equal(known, y.isfinite()):
        return float("inf")
    x, y = x[known], y[known]
    return ((x - y).norm() / x.norm().clamp(min=1e-30)).item()
