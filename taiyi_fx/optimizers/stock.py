"""Descriptions of torch's own optimizers.

The step is the last one where the state alone tells it, as Adam's does. Others make it of the
gradient too: theirs is the step to come, with the gradient as it is at `Monitor.track`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, optim

from taiyi_fx.optimizers.describe import describe_optimizer
from taiyi_fx.optimizers.trained import TrainedParameter


def adam_first_moment(of: TrainedParameter) -> Tensor:
    """The mean of the gradients, without its bias towards zero."""
    return of.state["exp_avg"] / _weight_of_all(of, 0)


def adam_second_moment(of: TrainedParameter) -> Tensor:
    """The mean of their squares, without its bias towards zero."""
    return of.state["exp_avg_sq"] / _weight_of_all(of, 1)


def adam_step(of: TrainedParameter) -> Tensor:
    """The last step of Adam, but for weight decay that is apart from it."""
    largest = of.group.get("amsgrad")
    v = of.state["max_exp_avg_sq" if largest else "exp_avg_sq"] / _weight_of_all(of, 1)
    return v.sqrt_().add_(of.group["eps"]).reciprocal_().mul_(adam_first_moment(of)).mul_(_rate(of))


def sgd_step(of: TrainedParameter) -> Tensor:
    """The last step where momentum alone makes it, else the one to come."""
    momentum = of.group["momentum"]
    if not momentum:
        return _rate(of) * _gradient(of)
    if not of.group["nesterov"]:
        return _rate(of) * of.state["momentum_buffer"]
    g = _gradient(of)
    kept = of.state["momentum_buffer"] if of.state.get("momentum_buffer") is not None else None
    buffer = g if kept is None else momentum * kept + (1 - of.group["dampening"]) * g
    return _rate(of) * (g + momentum * buffer)


def rmsprop_step(of: TrainedParameter) -> Tensor:
    """The last step where there is momentum, else the one to come."""
    if of.group["momentum"]:
        return _rate(of) * of.state["momentum_buffer"]
    g, alpha = _gradient(of), of.group["alpha"]
    v = _state_or_zeros(of, "square_avg", g) * alpha + (1 - alpha) * g.square()
    if of.group["centered"]:
        v = v - torch.lerp(_state_or_zeros(of, "grad_avg", g), g, 1 - alpha).square()
    return _rate(of) * g / (v.sqrt() + of.group["eps"])


def adagrad_step(of: TrainedParameter) -> Tensor:
    """The step to come."""
    g, steps = _gradient(of), of.state["step"]
    rate = _rate(of) / (1 + steps * of.group["lr_decay"])
    return rate * g / ((of.state["sum"] + g.square()).sqrt() + of.group["eps"])


def adafactor_second_moment(of: TrainedParameter) -> Tensor:
    """The estimate of the mean of squares; of a matrix, from means of its rows and columns."""
    if "row_var" not in of.state:
        return of.state["variance"]
    return _of_factors(of.state["row_var"], of.state["col_var"], _eps1(of))


def adafactor_step(of: TrainedParameter) -> Tensor:
    """The step to come, but for weight decay."""
    g, group = (-of.gradient if of.group["maximize"] else of.gradient), of.group
    step = float(of.state.get("step", 0)) + 1
    weight, eps1 = step ** group["beta2_decay"], _eps1(of)
    if g.ndim > 1:
        row, col = (
            torch.lerp(_state_or_zeros(of, key, mean), mean, weight)
            for key, mean in (
                ("row_var", g.square().mean(-1, keepdim=True)),
                ("col_var", g.square().mean(-2, keepdim=True)),
            )
        )
        v = _of_factors(row, col, eps1)
    else:
        v = torch.lerp(_state_or_zeros(of, "variance", g), g.square(), weight)
    update = v.clamp(min=eps1 * eps1).rsqrt() * g
    size = _root_mean_square(of.parameter).clamp(min=group["eps"][1])
    alpha = size * min(float(group["lr"]), step**-0.5)
    return update * (alpha / (_root_mean_square(update) / group["d"]).clamp(min=1))


def _weight_of_all(of: TrainedParameter, which: int) -> Any:  # a float, or a tensor on a device
    """The sum of the weights of all gradients so far in a moment, which tends to 1."""
    beta, step = of.group["betas"][which], of.state["step"]
    if isinstance(step, Tensor) and not step.is_cpu and of.state["exp_avg"].is_cpu:
        step = step.cpu()  # of a state that was offloaded without it
    if not isinstance(step, Tensor) or step.is_cpu:
        step = float(step)
        if not step:
            raise KeyError("step")
        return 1 - float(beta) ** step
    wide = torch.float32 if step.device.type == "mps" else torch.float64
    return 1 - beta ** step.to(wide)  # a number stays one: as a tensor it would be waited for


def _gradient(of: TrainedParameter) -> Tensor:
    """The gradient as the optimizer takes it, with the decay of weights in it."""
    g = -of.gradient if of.group.get("maximize") else of.gradient
    decay = of.group["weight_decay"]
    return g + decay * of.parameter if decay else g


def _rate(of: TrainedParameter) -> Any:  # a float or a tensor
    return of.group["lr"]


def _state_or_zeros(of: TrainedParameter, key: str, like: Tensor) -> Tensor:
    return of.state[key] if of.state.get(key) is not None else torch.zeros_like(like)


def _of_factors(row: Tensor, col: Tensor, eps: float) -> Tensor:
    return row @ col / row.mean(-2, keepdim=True).clamp(min=eps)


def _eps1(of: TrainedParameter) -> float:
    eps = of.group["eps"][0]
    return torch.finfo(of.dtype).eps if eps is None else eps


def _root_mean_square(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x) / max(x.numel(), 1) ** 0.5


for _kind in (optim.Adam, optim.AdamW):
    describe_optimizer(
        _kind,
        first_moment=adam_first_moment,
        second_moment=adam_second_moment,
        step=adam_step,
        elementwise=True,
    )
for _kind in (optim.NAdam, optim.RAdam):
    describe_optimizer(
        _kind,
        first_moment=adam_first_moment,
        second_moment=adam_second_moment,
        elementwise=True,
    )
describe_optimizer(optim.Adamax, first_moment=adam_first_moment, elementwise=True)
describe_optimizer(
    optim.SGD,
    first_moment="momentum_buffer",
    step=sgd_step,
    elementwise=True,
    momentum="momentum",
)
describe_optimizer(optim.RMSprop, second_moment="square_avg", step=rmsprop_step, elementwise=True)
describe_optimizer(optim.Adagrad, second_moment="sum", step=adagrad_step, elementwise=True)
describe_optimizer(optim.Adafactor, second_moment=adafactor_second_moment, step=adafactor_step)
if hasattr(optim, "Muon"):  # from torch 2.9 on
    describe_optimizer(optim.Muon, first_moment="momentum_buffer", elementwise=True)
