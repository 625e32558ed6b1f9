"""Planted faults, each traced to its operation, line and phase."""

import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import taiyi_fx
from taiyi_fx import MonitorWarning
from tests.recorder.replay.given import line_of

NAN, INF = math.nan, math.inf
AT = 4


class Layer(nn.Module):
    """A layer with a fault in it, once it is broken."""

    def __init__(self, fault=None):
        super().__init__()
        self.fc, self.fault, self.is_broken = nn.Linear(6, 6), fault, False

    def forward(self, x):
        h = torch.tanh(self.fc(x))
        return self.fault(h) if self.is_broken and self.fault else h


class Net(nn.Module):
    """A few layers; one of them, or something between them, has the fault."""

    def __init__(self, fault, inside=True, wrapped=lambda module, x: module(x)):
        super().__init__()
        self.first, self.last = Layer(), nn.Linear(6, 2)
        self.middle = Layer(fault if inside else None)
        self.between = None if inside else fault
        self.wrapped = wrapped
        self.is_broken = False

    def forward(self, x):
        h = self.first(x)
        if self.between is not None and self.is_broken:
            h = self.between(h)
        return self.last(self.wrapped(self.middle, h))

    def broken(self):
        self.is_broken = self.middle.is_broken = True


def trained(model, cfg=None, steps=7, loss=torch.square, every=1, track_scaler=None, **options):
    """The replays of a training whose model breaks at a step."""
    torch.manual_seed(0)
    kind = options.pop("optimizer", torch.optim.Adam)
    optimizer = kind(model.parameters(), lr=0.01)
    recorder = taiyi_fx.Recorder(checkpoint_every=every)
    cfg = cfg or {nn.Module: ["NonFinite", "OutputGradNonFinite"]}
    instrumented = taiyi_fx.instrument(
        model, cfg, optimizer=optimizer, recorder=recorder, strict=True, **options
    )
    run = torch.compile(instrumented) if options.get("compiled") else instrumented
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        for step in range(steps):
            if step == AT:
                model.broken()
            loss(run(torch.randn(8, 6))).mean().backward()
            instrumented.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()
        instrumented.monitor.close()
    return recorder.replays


def log_of_negative(h):
    return torch.log(h - 2)


def zero_by_zero(h):
    return (h - h) / (h - h)


def division_by_zero(h):
    return h / torch.zeros_like(h)


def exp_overflow(h):
    return torch.exp(h.abs() * 0 + 100) * 0 + h


def half_overflow(h):
    return (h.half() * 0 + 1000) .square() .float()  # fmt: skip


def root_of_negative(h):
    return torch.sqrt(-h.abs() - 1)


def softmax_of_nothing(h):
    return F.softmax(h.masked_fill(h < 5, -INF), -1)


def power_of_negative(h):
    return torch.pow(-h.abs() - 1, 0.5)


def division_by_std(h):
    flat = h * 0 + 1
    return (flat - flat.mean()) / flat.std()


def asin_beyond(h):
    return torch.asin(h.abs() + 2)


def inf_minus_inf(h):
    large = h.abs() * 1e38 * 1e10
    return large - large


def in_place(h):
    h = h.clone()
    h.sub_(2).log_()
    return h


def product_overflow(h):
    return (h * 0 + 1e30) @ (torch.ones(6, 6) * 1e30)


def literal(h):
    return h * NAN


def remainder(h):
    return torch.fmod(h, 0.0)


def modulus_overflow(h):
    return h * torch.linalg.vector_norm(h * 0 + 1e30, dim=1, keepdim=True)


def atanh(h):
    return torch.atanh(h * 0 + 1) * h


def running_product(h):
    return (h * 0 + 1e30).cumprod(-1) * 0 + h


FORWARD = [
    (log_of_negative, "log", "torch.log"),
    (zero_by_zero, "div", "(h - h) /"),
    (division_by_zero, "div", "zeros_like"),
    (exp_overflow, "exp", "torch.exp"),
    (half_overflow, "pow", "square"),
    (root_of_negative, "sqrt", "torch.sqrt"),
    (softmax_of_nothing, "_softmax", "F.softmax"),
    (power_of_negative, "pow", "torch.pow"),
    (division_by_std, "div", "flat.std"),
    (asin_beyond, "asin", "torch.asin"),
    (inf_minus_inf, "mul", "1e38"),
    (in_place, "log_", "log_"),
    (product_overflow, "mm", "@"),
    (literal, "mul", "NAN"),
    (remainder, "fmod", "torch.fmod"),
    (modulus_overflow, "linalg_vector_norm", "vector_norm"),
    (atanh, "atanh", "torch.atanh"),
    (running_product, "cumprod", "cumprod"),
]


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize(("fault", "operation", "text"), FORWARD)
def test_in_a_forward_it_is_the_operation_and_its_line(fault, operation, text, inside):
    found = trained(Net(fault, inside))[0]
    assert (found.step, found.phase) == (AT, "forward")
    assert found.operation == operation
    assert (found.file, found.line) == (__file__, line_of(fault, text))
    assert found.module == ("middle" if inside else "")
    assert all(x.is_finite for x in found.inputs) or operation == "_softmax"
    assert not all(x.is_finite for x in found.outputs)
    assert found.is_exact


def root_at_zero(h):
    return h + torch.sqrt(h - h)


def norm_at_zero(h):
    return h + ((h - h).square().sum(-1, keepdim=True)) ** 0.5


def masked_log(h):
    return torch.where(h > 9, (h - h).log(), h)


def power_at_zero(h):
    return h + (h - h).abs().pow(0.5)


def acos_at_one(h):
    return h + torch.acos((h - h) + 1)


BACKWARD = [
    (root_at_zero, "SqrtBackward0", "torch.sqrt"),
    (norm_at_zero, "PowBackward0", "0.5"),
    (masked_log, "LogBackward0", "log()"),
    (power_at_zero, "PowBackward0", "pow(0.5)"),
    (acos_at_one, "AcosBackward0", "torch.acos"),
]


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize(("fault", "node", "text"), BACKWARD)
def test_in_backward_alone_it_is_the_line_of_the_forward(fault, node, text, inside):
    found = trained(Net(fault, inside))[0]
    assert (found.step, found.phase) == (AT, "backward")
    assert found.operation.startswith(f"{node}: ")
    assert (found.file, found.line) == (__file__, line_of(fault, text))
    assert found.module == ("middle" if inside else "")
    assert found.is_exact


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x / 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient / 0


def own_function(h):
    return Halved.apply(h)


def test_in_a_backward_of_ones_own_it_is_the_line_there():
    found = trained(Net(own_function))[0]
    assert (found.phase, found.operation) == ("backward", "HalvedBackward: div")
    assert (found.file, found.line) == (__file__, line_of(Halved, "gradient / 0"))


class Root(torch.optim.Optimizer):
    """An optimizer that takes a root of negative numbers, from a step on."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr, "count": 0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["count"] += 1
            for p in group["params"]:
                p.sub_(updated(p.grad, group["count"]) * group["lr"])


def updated(gradient, count):
    return torch.sqrt(gradient - 100) if count > AT else gradient


@pytest.mark.parametrize("every", [1, 3])
def test_in_an_optimizer_it_is_the_line_of_its_step(every):
    model = Net(None)
    model.broken = lambda: None
    found = trained(model, optimizer=Root, every=every)[0]
    assert (found.step, found.phase, found.operation) == (AT, "optimizer", "sqrt")
    assert (found.file, found.line) == (__file__, line_of(updated, "sqrt"))
    assert found.module == "first.fc"
    assert found.is_exact


class NoEps(torch.optim.Adam):
    def __init__(self, params, lr):
        super().__init__(params, lr=lr, eps=0.0)


def test_in_an_optimizer_of_torch_it_is_the_parameters_module():
    class Idle(Net):
        def __init__(self):
            super().__init__(None)
            self.idle = nn.Linear(6, 6)

        def forward(self, x):
            return super().forward(x) + 0 * self.idle(x).sum()

        def broken(self):
            pass

    found = trained(Idle(), optimizer=NoEps)[0]
    assert (found.step, found.phase, found.module) == (0, "optimizer", "idle")
    assert found.file.endswith("adam.py")
    assert "div" in found.operation


def again(module, x):
    return checkpoint(module, x, use_reentrant=False)


def again_reentrant(module, x):
    return checkpoint(module, x, use_reentrant=True)


@pytest.mark.parametrize("wrapped", [again, again_reentrant])
def test_in_a_recomputed_checkpoint(wrapped):
    found = trained(Net(log_of_negative, wrapped=wrapped))[0]
    assert (found.phase, found.operation, found.module) == ("forward", "log", "middle")
    assert found.line == line_of(log_of_negative, "torch.log")
    assert found.is_exact
    found = trained(Net(root_at_zero, wrapped=wrapped))[0]
    assert (found.phase, found.module) == ("backward", "middle")
    assert found.operation == "SqrtBackward0: div"
    assert found.line == line_of(root_at_zero, "torch.sqrt")


def test_in_the_batch_and_in_the_loss():
    model = Net(None)
    model.broken = lambda: setattr(model, "is_spoilt", True)
    model.is_spoilt = False

    def loss(y):
        return (y * NAN if model.is_spoilt else y).square()

    found = trained(model, loss=loss)[0]
    assert (found.step, found.phase) == (AT, "backward")
    assert found.operation == "the gradient that reached output 0 of the model"
    assert found.is_exact


def test_a_healthy_training_has_no_replay():
    masked = Net(lambda h: F.softmax(h.masked_fill(h < h.amax(-1, keepdim=True), -INF), -1))
    assert trained(masked) == []


def test_overflows_that_a_scaler_looks_for_are_no_fault():
    torch.manual_seed(0)
    model, recorder = nn.Linear(4, 1), taiyi_fx.Recorder(checkpoint_every=1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    instrumented = taiyi_fx.instrument(
        model, {"": ["NonFinite"]}, optimizer=optimizer, recorder=recorder, strict=True
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    for step in range(3):
        scaler.scale(instrumented(torch.randn(4, 4)).square().sum() * 1e9).backward()
        instrumented.monitor.track(step, grad_scale=scaler)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    instrumented.monitor.close()
    assert recorder.replays == []


@pytest.mark.slow
def test_in_compiled_code_it_is_the_line_of_the_source():
    torch._dynamo.reset()
    model = Net(log_of_negative)
    torch.manual_seed(0)
    recorder = taiyi_fx.Recorder(checkpoint_every=1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    instrumented = taiyi_fx.instrument(
        model, {nn.Module: ["NonFinite"]}, optimizer=optimizer, recorder=recorder, strict=True
    )
    compiled = torch.compile(instrumented)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(3):
            if step == 2:
                model.broken()
            compiled(torch.randn(8, 6)).square().mean().backward()
            instrumented.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()
        instrumented.monitor.close()
    found = recorder.replays[0]
    assert (found.step, found.operation, found.phase) == (2, "log", "forward")
    assert (found.file, found.line) == (__file__, line_of(log_of_negative, "torch.log"))
    assert found.module == "middle"
    if not found.is_exact:
        assert "compiled code ran then" in found.note
