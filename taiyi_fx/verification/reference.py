"""References in float64 for some quantities, from tensors of the plain model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.quantities.declare import find_quantity
from taiyi_fx.verification.calls import Side

_Formula = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Expected:
    """A number in float64, and the magnitude that its error is divided by."""

    value: float
    size: float

    def error(self, found: float) -> float:
        """The error of a number, as a share of the size."""
        expected = self.value
        if found == expected or (found != found and expected != expected):
            return 0.0
        error = abs(found - expected)
        return error / self.size if self.size and error < torch.inf else error


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x)


def _rms(x: Tensor) -> Tensor:
    return x.square().mean().sqrt()


def _abs_max(x: Tensor) -> Tensor:
    return x.abs().max()


def _non_finite(x: Tensor) -> Tensor:
    return (~x.isfinite()).sum()


def _mean_of_sample_norms(x: Tensor) -> Tensor:
    return x.reshape(len(x) if x.ndim else 1, -1).norm(dim=1).mean()


_AT_CALLS: dict[Side, dict[str, _Formula]] = {
    "input": {
        "InputSndNorm": _norm,
        "InputRMS": _rms,
        "InputAbsMax": _abs_max,
        "InputMean": torch.mean,
        "InputStd": torch.std,
        "InputNonFinite": _non_finite,
    },
    "output": {
        "OutputNorm": _mean_of_sample_norms,
        "OutputRMS": _rms,
        "OutputAbsMax": _abs_max,
        "NonFinite": _non_finite,
    },
    "output_grad": {
        "OutputGradSndNorm": _norm,
        "OutputGradNorm": _norm,
        "OutputGradRMS": _rms,
        "OutputGradAbsMax": _abs_max,
        "OutputGradNonFinite": _non_finite,
    },
}

_OF_VALUES = {"WeightNorm": _norm, "ParameterNorm": _norm, "ParameterRMS": _rms}

_OF_GRADIENTS = {"WeightGradNorm": _norm, "ParameterGradNorm": _norm, "ParameterGradRMS": _rms}


def is_compared(subscription: Subscription) -> bool:
    """True if there is a reference for a subscription."""
    tables = (*_AT_CALLS.values(), _OF_VALUES, _OF_GRADIENTS)
    return any(_formula(subscription, table) is not None for table in tables)


def expected_at(subscription: Subscription, side: Side, tensor: Tensor) -> Expected | None:
    """The value of a quantity at a side of a call; None if it reads another, or has none."""
    formula = _formula(subscription, _AT_CALLS[side])
    return None if formula is None else _expected(formula, tensor)


def expected_of_parameters(subscription: Subscription, holder: nn.Module) -> Iterator[Expected]:
    """The value of a quantity of a module's parameter or its gradient; nothing for others."""
    parameter = getattr(holder, dict(subscription.options).get("param", "weight"), None)
    if isinstance(parameter, Tensor):
        for table, tensor in ((_OF_VALUES, parameter), (_OF_GRADIENTS, parameter.grad)):
            formula = _formula(subscription, table)
            if formula is not None and tensor is not None:
                expected = _expected(formula, tensor)
                yield from () if expected is None else (expected,)


def _formula(subscription: Subscription, table: dict[str, _Formula]) -> _Formula | None:
    name = subscription.quantity.name
    options = {key for key, _ in subscription.options}
    is_ours = find_quantity(name) is subscription.quantity
    home = getattr(subscription.quantity.compute, "__module__", None)
    is_stock = str(home).startswith("taiyi_fx.quantities.")
    is_plain = options <= {"param"} and dict(subscription.options).get("param") != "all"
    return table.get(name) if is_ours and is_stock and is_plain else None


def _expected(formula: _Formula, tensor: Tensor) -> Expected | None:
    x = tensor.detach()
    if not x.numel() or x.layout is not torch.strided or x.is_nested or hasattr(x, "to_local"):
        return None
    x = x.cpu() if x.device.type == "mps" else x  # which has no float64
    x = (x.abs() if x.is_complex() else x).double()
    if formula is torch.std and x.numel() < 2:
        return Expected(torch.nan, 0.0)
    value = float(formula(x))
    size = float(x.abs().mean()) if formula is torch.mean else abs(value)
    return Expected(value, size)
