"""Each named parameter of a module: its size, its gradient, its conditioning and how it moves.

Records are named after the parameter: ``ParameterNorm.weight``, ``ParameterNorm.bias``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import Defined, NoValue, quantity
from taiyi_fx.quantities.places import parameter, parameter_grad, previous
from taiyi_fx.quantities.stock.similarity import cosine
from taiyi_fx.reductions import MatrixSingularValues, Norm, accumulated, ratio


@quantity("ParameterNorm", accuracy="1e-5", health="lasting", batched=True, norm=parameter.norm)
def parameter_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of each named parameter.

    Formula: ||p||_2
    """
    return norm


@quantity(
    "ParameterRMS",
    accuracy="1e-5",
    health="lasting",
    batched=True,
    norm=parameter.norm,
    n=parameter.count,
)
def parameter_rms(norm: Tensor, n: Tensor) -> Tensor:
    """Root mean square of each named parameter.

    Formula: ||p||_2 / sqrt(numel)
    """
    return norm / n.to(norm.dtype).sqrt()


@quantity("ParameterGradNorm", accuracy="1e-5", batched=True, norm=parameter_grad.norm)
def parameter_grad_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of each parameter's gradient; none where no gradient came.

    Formula: ||p.grad||_2
    """
    return norm


@quantity(
    "ParameterGradRMS",
    accuracy="1e-5",
    batched=True,
    norm=parameter_grad.norm,
    n=parameter_grad.count,
)
def parameter_grad_rms(norm: Tensor, n: Tensor) -> Tensor:
    """Root mean square of each parameter's gradient.

    Formula: ||p.grad||_2 / sqrt(numel)
    """
    return norm / n.to(norm.dtype).sqrt()


@quantity(
    "ParameterGradCorrelation",
    unit="cosine",
    accuracy="1e-5 absolute",
    g=parameter_grad.sample,
    before=previous(parameter_grad.sample),
)
def parameter_grad_correlation(g: Tensor, before: Tensor | None) -> Tensor:
    """Cosine of each parameter's gradient with that of the previous due step, in [-1, 1].

    None at the first due step; NaN where a gradient is zero.

    Formula: <g_t, g_(t-1)> / (||g_t||_2 ||g_(t-1)||_2)
    """
    if before is None:
        raise NoValue("this is the first due step, or there was no gradient at the one before")
    if before.shape != g.shape:
        raise NoValue(_reshaped("gradients", before, g))
    return cosine(g, before)


@quantity(
    "ParameterGradActivationRate", unit="share", accuracy="exact counts", g=parameter_grad.sample
)
def parameter_grad_activation_rate(g: Tensor, *, eps: float = 0.0) -> Tensor:
    """Share of a parameter's output units (its axis 0) that got a gradient.

    One that is not zero exactly, or with ``eps`` one larger than that in absolute value.

    Formula: (units with any |g| > eps) / units
    """
    units = g.reshape(len(g), -1) if g.ndim else g.reshape(1, 1)
    largest = units.abs().amax(1) if units.numel() else units.new_zeros(len(units))
    share = ratio((largest > eps).sum(), len(units))
    return torch.where(largest.isnan().any(), torch.nan, share)


@quantity(
    "ParameterGradDeathRate",
    unit="share",
    accuracy="exact counts",
    health="share_of_trouble",
    g=parameter_grad.sample,
)
def parameter_grad_death_rate(g: Tensor, *, eps: float = 0.0) -> Tensor:
    """Share of a parameter's output units (its axis 0) that got no gradient.

    Formula: 1 - (units with any |g| > eps) / units
    """
    return 1 - parameter_grad_activation_rate(g, eps=eps)


@quantity(
    "ParameterUpdateNorm",
    accuracy="1e-5 beside the rounding of the parameters themselves",
    now=parameter.parts,
    before=previous(parameter.parts),
)
def parameter_update_norm(now: Tensor, before: Tensor | None) -> Tensor:
    """Euclidean norm of how far each parameter moved since the previous due step.

    None at the first. Keeps a copy of the parameter.

    Formula: ||u||_2, u = p_t - p_(t-1)
    """
    return _norm(_update(now, before))


@quantity(
    "ParameterUpdateRMS",
    accuracy="1e-5 beside the rounding of the parameters themselves",
    now=parameter.parts,
    before=previous(parameter.parts),
)
def parameter_update_rms(now: Tensor, before: Tensor | None) -> Tensor:
    """Root mean square of how far each parameter moved since the previous due step.

    Formula: ||u||_2 / sqrt(numel), u = p_t - p_(t-1)
    """
    return _norm(_update(now, before)) / now.numel() ** 0.5


@quantity(
    "ParameterUpdateCorrelation",
    unit="cosine",
    accuracy="1e-5 absolute, beside the rounding of the parameters themselves",
    now=parameter.parts,
    before=previous(parameter.parts),
    earlier=previous(previous(parameter.parts)),
)
def parameter_update_correlation(
    now: Tensor, before: Tensor | None, earlier: Tensor | None
) -> Tensor:
    """Cosine of each parameter's last two updates, in [-1, 1]: near -1 it swings to and fro.

    None at the first two due steps; NaN where it stood still. Keeps two copies of the parameter.

    Formula: <u_t, u_(t-1)> / (||u_t||_2 ||u_(t-1)||_2), u_t = p_t - p_(t-1)
    """
    if before is None or earlier is None:
        raise NoValue("two due steps have to come before")
    return cosine(_update(now, before), _update(before, earlier))


@quantity(
    "UpdateRatio",
    unit="ratio",
    accuracy="1e-5 beside the rounding of the parameters themselves",
    health="step_size",
    now=parameter.parts,
    before=previous(parameter.parts),
)
def update_ratio(now: Tensor, before: Tensor | None) -> Defined:
    """Size of each parameter's step since the previous due step, relative to its own size.

    None at the first, nor where all of the parameter was zero. Healthy training is often near 1e-3.

    Formula: ||p_t - p_(t-1)||_2 / ||p_(t-1)||_2
    """
    moved = _norm(_update(now, before))
    assert before is not None
    size = _norm(before)
    return Defined(moved / size, size != 0, "all of the parameter was zero")


@quantity(
    "ParameterCondition",
    unit="ratio",
    accuracy="1e-4 where well conditioned",
    batched=True,
    singular=parameter.matrix_singular,
)
def parameter_condition(singular: MatrixSingularValues) -> Tensor:
    """Condition number of each parameter as a matrix, axis 0 by the rest.

    +inf where the smallest singular value is zero: at or below sigma_1 max(C, sqrt(N)) eps, C being
    the shorter side and N the longer one.

    Formula: sigma_1 / sigma_min
    """
    values = singular.values
    smallest = values[..., -1]
    ratio = torch.where(smallest <= singular.zero, torch.inf, values[..., 0] / smallest)
    return torch.where(smallest.isnan(), torch.nan, ratio)


def _update(now: Tensor, before: Tensor | None) -> Tensor:
    if before is None:
        raise NoValue("this is the first due step, so there is no parameter before it")
    if before.shape != now.shape:
        raise NoValue(_reshaped("parameters", before, now))
    if now.is_complex():
        return accumulated(now - before)
    return accumulated(now) - accumulated(before)


def _reshaped(what: str, before: Tensor, now: Tensor) -> str:
    shapes = f"{tuple(before.shape)} and {tuple(now.shape)}"
    return f"the {what} of the due step before and of this one have shapes {shapes}"


def _norm(x: Tensor) -> Tensor:
    (found,) = Norm().measure(x)
    return found
