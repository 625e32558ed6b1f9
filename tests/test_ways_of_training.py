"""Every way of training: the values are those that hooks on a plain copy see, in float64.

Each way is gone by both sides of `tests/sides.py`: all records of all steps are compared, and
parameters and gradients bit for bit.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx
from taiyi_fx import MonitorWarning
from tests.sides import FAILED, QUANTITIES, Hooked, Side, same_both_ways


class FailsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        raise RuntimeError("in backward")


class Stop(BaseException):
    """As KeyboardInterrupt, which pytest would take for one of its own."""


class Between(nn.Module):
    """Between the layers, where a step may fail."""

    fails: str | None = None

    def forward(self, x):
        is_again = torch._C._current_graph_task_id() != -1
        if self.fails == "forward" or (self.fails == "recomputation" and is_again):
            raise RuntimeError(self.fails)
        if self.fails == "interrupt":
            raise Stop
        return FailsInBackward.apply(x) if self.fails == "backward" else torch.tanh(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.act = nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(inplace=True)
        self.middle, self.last = nn.Linear(8, 8), nn.Linear(8, 3)
        self.between = Between()

    def body(self, x):
        return self.middle(self.act(self.norm(self.first(x))))

    def forward(self, x):
        return self.last(self.between(self.body(x)))


class Python(Net):
    """Stays Python."""

    def forward(self, x):
        if x.sum() > 1e30:
            x = x / 2
        return super().forward(x)


class Checkpointed(Net):
    def forward(self, x):
        x = checkpoint(self.body, x, use_reentrant=False)
        return self.last(checkpoint(self.between, x, use_reentrant=False))


WAYS: dict[str, tuple[Callable[[Side], None], int, tuple[type[nn.Module], ...]]] = {}
"""By name, a way, the number of steps that it tracks, and the models that go it."""


def way(steps: int = 3, kinds: tuple[type[nn.Module], ...] = (Net, Python)):
    def declare(go: Callable[[Side], None]) -> Callable[[Side], None]:
        WAYS[go.__name__] = go, steps, kinds
        return go

    return declare


def data(n: int = 4) -> Tensor:
    return torch.randn(n, 6)


def loss_of(y: Tensor) -> Tensor:
    return y.float().square().mean()


def sgd(side: Side, lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(side.model.parameters(), lr)


def one_step(side: Side, optimizer: torch.optim.Optimizer, step: int, n: int = 4) -> None:
    optimizer.zero_grad()
    loss_of(side.model(data(n))).backward()
    side.track(step)
    optimizer.step()


@way(kinds=(Net, Python, Checkpointed))
def batches_of_different_sizes(side):
    optimizer = sgd(side)
    for step in range(3):
        one_step(side, optimizer, step, 5 - step)


@way(kinds=(Net, Python, Checkpointed))
def micro_batches_of_different_sizes(side):
    optimizer = sgd(side)
    for step in range(3):
        for n in (2, 5, 3):
            (loss_of(side.model(data(n))) * n / 10).backward()
        side.track(step)
        optimizer.step()
        optimizer.zero_grad()


@way(kinds=(Net, Checkpointed))
def bfloat16_autocast(side):
    optimizer = sgd(side)
    for step in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(side.model(data()))
        loss.backward()
        side.track(step)
        optimizer.step()
        optimizer.zero_grad()


@way()
def a_bfloat16_model(side):
    side.model.to(torch.bfloat16)
    optimizer = sgd(side)
    for step in range(3):
        loss_of(side.model(data().bfloat16())).backward()
        side.track(step)
        optimizer.step()
        optimizer.zero_grad()


def scaled(side: Side, dtype: torch.dtype, *, unscales: bool, overflow_at: int) -> None:
    optimizer, scaler = sgd(side), torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(4):
        with torch.autocast("cpu", dtype):
            loss = loss_of(side.model(data()))
        loss = loss * (1e38 if step == overflow_at else 1.0)
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        if unscales:
            scaler.unscale_(optimizer)
        side.track(step, scale, unscales, given=scaler)
        before = side.model.last.weight.clone()
        scaler.step(optimizer)
        assert torch.equal(before, side.model.last.weight) == (step == overflow_at)
        scaler.update()
        optimizer.zero_grad()
    assert scaler.get_scale() == 512.0


@way(steps=4, kinds=(Net, Checkpointed))
def a_scaler_before_it_unscales(side):
    scaled(side, torch.float16, unscales=False, overflow_at=1)


@way(steps=4)
def a_scaler_after_it_unscaled(side):
    scaled(side, torch.float16, unscales=True, overflow_at=2)


@way(steps=4)
def a_scaler_with_bfloat16(side):
    scaled(side, torch.bfloat16, unscales=True, overflow_at=1)


@way()
def a_scaler_and_micro_batches(side):
    optimizer, scaler = sgd(side), torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=1)
    for step in range(3):
        for n in (3, 2):
            with torch.autocast("cpu", torch.float16):
                loss = loss_of(side.model(data(n))) / 2
            scaler.scale(loss).backward()
        side.track(step, 64.0 * 2**step, given=scaler)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


@way()
def several_optimizers_of_one_scaler(side):
    parts = [side.model.first, side.model.middle], [side.model.norm, side.model.last]
    optimizers = [torch.optim.SGD(nn.ModuleList(p).parameters(), 0.1) for p in parts]
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for step in range(3):
        scaler.scale(loss_of(side.model(data()))).backward()
        if step:
            for optimizer in optimizers:
                scaler.unscale_(optimizer)
        side.track(step, 256.0, bool(step), given=scaler)
        for optimizer in optimizers:
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()


@way(steps=2)
def several_optimizers_in_turn(side):
    """As for an adversary: each with a loss of its own, and a step of each before one track."""
    parts = side.model.first, side.model.last
    optimizers = [torch.optim.Adam(part.parameters(), 0.1) for part in parts]
    for step in range(2):
        for optimizer in optimizers:
            optimizer.zero_grad()
            loss_of(side.model(data())).backward()
            optimizer.step()
        side.track(step)


@way(steps=2)
def closures(side):
    optimizer = torch.optim.LBFGS(side.model.parameters(), max_iter=3)
    x = data()

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(side.model(x))
        loss.backward()
        return loss

    for step in range(2):
        optimizer.step(closure)
        side.track(step)


@way()
def parameters_given_for_the_call(side):
    """Values are those of the call; parameters and their gradients are the module's own."""
    given = {n: (2 * p.detach()).requires_grad_() for n, p in side.model.named_parameters()}
    for step in range(3):
        y = torch.func.functional_call(side.model, given, (data(),))
        loss_of(y).backward()
        if step == 2:
            loss_of(side.model(data())).backward()
        side.track(step)


@way(steps=2)
def steps_inside_of_a_step(side):
    """Each inner step has its own parameters; the last loss goes back through all of them."""
    for step in range(2):
        given = dict(side.model.named_parameters())
        for n in (4, 3):
            loss = loss_of(torch.func.functional_call(side.model, given, (data(n),)))
            grads = torch.autograd.grad(loss, [*given.values()])
            given = {k: p - 0.1 * g for (k, p), g in zip(given.items(), grads, strict=True)}
        loss_of(torch.func.functional_call(side.model, given, (data(5),))).backward()
        side.track(step)


@way(kinds=(Net, Python, Checkpointed))
def evaluation_everywhere(side):
    def evaluate() -> None:
        side.model.eval()
        with torch.no_grad():
            side.model(100 * data(2))
        with torch.inference_mode():
            side.model(100 * data(3))
        side.model(100 * data(2)).sum().backward()
        side.model.train()
        with torch.no_grad():
            side.model(100 * data(2))

    optimizer = sgd(side)
    for step in range(3):
        evaluate()
        loss = loss_of(side.model(data()))
        evaluate()
        optimizer.zero_grad()
        loss.backward()
        gradients = [p.grad.clone() for p in side.model.parameters()]
        evaluate()
        for p, g in zip(side.model.parameters(), gradients, strict=True):
            p.grad = g
        side.track(step)
        optimizer.step()
        evaluate()


@way()
def a_backward_that_is_left_out(side):
    optimizer = sgd(side)
    for step in range(3):
        side.model(data(2))
        one_step(side, optimizer, step)


@way()
def a_step_without_a_backward(side):
    optimizer = sgd(side)
    for step in range(3):
        optimizer.zero_grad()
        loss = loss_of(side.model(data()))
        if step != 1:
            loss.backward()
        side.track(step)
        optimizer.step()


@way()
def gradients_of_zero_instead_of_none(side):
    optimizer = sgd(side)
    for step in range(3):
        optimizer.zero_grad(set_to_none=False)
        loss = loss_of(side.model(data()))
        if step != 1:
            loss.backward()
        side.track(step)
        optimizer.step()


@way(kinds=(Net, Python, Checkpointed))
def two_forwards_and_one_backward(side):
    optimizer = sgd(side)
    for step in range(3):
        (loss_of(side.model(data(2))) + loss_of(side.model(data(5)))).backward()
        side.track(step)
        optimizer.step()
        optimizer.zero_grad()


@way()
def two_backwards_through_one_forward(side):
    """The gradients add up, as in autograd."""
    optimizer = sgd(side)
    for step in range(3):
        y = side.model(data())
        loss_of(y).backward(retain_graph=True)
        y.sum().backward()
        side.track(step)
        optimizer.step()
        optimizer.zero_grad()


@way(kinds=(Net, Python))
def gradients_asked_for_by_autograd_grad(side):
    optimizer = sgd(side)
    for step in range(3):
        parameters = [*side.model.parameters()]
        found = torch.autograd.grad(loss_of(side.model(data())), parameters)
        if step:
            for parameter, gradient in zip(parameters, found, strict=True):
                parameter.grad = gradient
        side.track(step)
        optimizer.step()
        optimizer.zero_grad()


@way(steps=2)
def gradients_of_a_part_alone(side):
    """Nothing goes back beyond what is asked for, so no gradient comes there."""
    for step in range(2):
        torch.autograd.grad(loss_of(side.model(data())), [*side.model.last.parameters()])
        side.track(step)


@way(steps=2)
def a_penalty_on_the_gradient(side):
    for step in range(2):
        x = data().requires_grad_()
        loss = loss_of(side.model(x))
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        g.square().sum().backward()
        side.track(step)


@way(steps=4, kinds=(Net, Python, Checkpointed))
def layers_frozen_and_thawed(side):
    optimizer = sgd(side)
    for step in range(4):
        side.model.first.requires_grad_(step > 1)
        side.model.middle.weight.requires_grad_(step != 2)
        one_step(side, optimizer, step)


@way(steps=4)
def another_type_in_between(side):
    for step, dtype in enumerate((torch.float32, torch.float64, torch.bfloat16, torch.float32)):
        side.model.to(dtype)
        side.model.zero_grad()
        for n in (3, 2):
            loss_of(side.model(data(n).to(dtype))).backward()
        side.track(step)


def fail(side: Side, place: str) -> None:
    """A step of which nothing is left but what its failure left."""
    side.model.between.fails = place

    def step() -> None:
        y = side.model(100 * data(2))
        (y.reshape(-1, 999) if place == "loss" else y).sum().backward()

    with pytest.raises((RuntimeError, Stop)):
        step()
    side.model.between.fails = None
    side.model.zero_grad()


def failing(side: Side, place: str, *, tracks: bool) -> None:
    """A failed step is tracked as another one, or given up."""
    optimizer = sgd(side)
    for step in range(3):
        for _ in range(step):
            fail(side, place)
            if tracks:
                side.track(FAILED + step)
            elif place not in ("forward", "interrupt") or isinstance(side, Hooked):
                side.forget()  # a forward that fails is forgotten of itself
        one_step(side, optimizer, step)


for _place in ("forward", "interrupt", "loss", "backward", "recomputation"):
    for _tracks in (True, False):
        _kinds = (Checkpointed,) if _place == "recomputation" else (Net, Python, Checkpointed)
        _go = functools.partial(failing, place=_place, tracks=_tracks)
        WAYS[f"failure in {_place}, {'tracked' if _tracks else 'given up'}"] = _go, 3, _kinds


@pytest.mark.parametrize(
    ("name", "kind"), [(n, k) for n, (_, _, kinds) in WAYS.items() for k in kinds]
)
def test_values_are_those_that_hooks_see(name, kind):
    go, steps, _ = WAYS[name]
    same_both_ways(go, kind, steps)


def batch_of_gradients(model: Any, x: Tensor) -> Tensor:
    y = model(x)
    each = torch.eye(y.numel()).reshape(-1, *y.shape)
    return torch.autograd.grad(y, model.first.weight, each, is_grads_batched=True)[0]


def mapped_gradients(model: Any, x: Tensor) -> Tensor:
    y = model(x)
    each = torch.eye(y.numel()).reshape(-1, *y.shape)
    return torch.vmap(lambda g: torch.autograd.grad(y, model.first.weight, g)[0])(each)


def vectorized_jacobian(model: Any, x: Tensor) -> Any:
    return torch.autograd.functional.jacobian(model, x, vectorize=True)


@pytest.mark.parametrize("kind", [Net, Python])
@pytest.mark.parametrize("go", [batch_of_gradients, mapped_gradients, vectorized_jacobian])
def test_gradients_taken_as_a_batch_are_the_plain_models_and_are_said_not_to_be_read(go, kind):
    model = kind()
    model.between = nn.Identity()  # a hook reads its gradient, a node in the path that of others
    probed = taiyi_fx.instrument(copy.deepcopy(model), {nn.Module: ["OutputGradSndNorm"]})
    x = data()
    assert torch.equal(go(probed, x), go(model, x))
    with pytest.warns(MonitorWarning, match="OutputGradSndNorm of 'last': .*taken as a batch"):
        probed.monitor.track(0)
    loss_of(probed(x)).backward()
    probed.monitor.track(1)
    assert 1 in probed.monitor.get_output()["last"]["OutputGradSndNorm"]


@pytest.mark.parametrize("kind", [Net, Python])
def test_forward_derivatives_are_the_plain_models(kind):
    model = kind()
    probed = taiyi_fx.instrument(copy.deepcopy(model), {nn.Linear: QUANTITIES})
    x, tangent = data(), data()

    def derivative(model: nn.Module) -> Tensor:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(model(forward_ad.make_dual(x, tangent))).tangent

    assert torch.equal(derivative(probed), derivative(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        probed.monitor.track(0)
    norms = probed.monitor.get_output()["first"]["InputSndNorm"]
    assert norms[0] == pytest.approx(x.norm().item(), rel=1e-5)
