"""Programs whose tensors share memory and change in place: probed, they train as they did."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from tests.examples import tried

N = 4


@taiyi_fx.quantity("norm_of_input_gradient_where_memory_is_shared", norm=taiyi_fx.input_grad.norm)
def norm_of_input_gradient(norm):
    return norm


class ChangesPart(nn.Module):
    def forward(self, x):
        x[:, 0] *= 2
        return x


class ChangesAll(nn.Module):
    def forward(self, x):
        return x.mul_(0.5)


class View(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(N, N)

    def forward(self, x):
        y = self.fc(x)
        return y, y.transpose(1, 2)


def part_in_place(x):
    x[:, 1].add_(1)
    return x


PARTS = {
    "linear": lambda: nn.Linear(N, N),
    "norm": lambda: nn.LayerNorm(N),
    "relu in place": lambda: nn.ReLU(inplace=True),
    "tanh": nn.Tanh,
    "identity": nn.Identity,
    "changes a part": ChangesPart,
    "changes all": ChangesAll,
    "view": View,
    "a pair": Pair,
}
STATEMENTS = {
    "sum": lambda a, b: a + b,
    "product": lambda a, b: a * 3,
    "transposed": lambda a, b: a.transpose(1, 2),
    "in place": lambda a, b: a.mul_(2),
    "sum in place": lambda a, b: a.add_(b),
    "part in place": lambda a, b: part_in_place(a),
}


VIEWS = {"transposed", "view", "a pair"}
CHANGES = {name for name in (*PARTS, *STATEMENTS) if "in place" in name or "changes" in name}


@dataclass(frozen=True)
class Line:
    does: str
    a: int
    b: int


class Program(nn.Module):
    """Each line makes one value more of those before."""

    def __init__(self, lines, returned, is_python):
        super().__init__()
        self.lines, self.returned, self.is_python = lines, returned, is_python
        self.parts = nn.ModuleList(
            PARTS[x.does]() if x.does in PARTS else nn.Module() for x in lines
        )

    def extra_repr(self):
        lines = "\n".join(f"v{i + 1} = {x.does}(v{x.a}, v{x.b})" for i, x in enumerate(self.lines))
        return f"{lines}\nreturn {self.returned}, {self.is_python=}"

    def forward(self, x, scale=None):
        if self.is_python and scale is not None:
            x = x * scale
        values = [x * 1]
        for line, part in zip(self.lines, self.parts, strict=True):
            a, b = values[line.a], values[line.b]
            made = part(a) if line.does in PARTS else STATEMENTS[line.does](a, b)
            values.extend(made if isinstance(made, tuple) else (made,))
        return tuple(values[i] for i in self.returned)


@st.composite
def programs(draw):
    lines, values = [], 1
    for _ in range(draw(st.integers(1, 6))):
        index = st.integers(0, values - 1)
        lines.append(Line(draw(st.sampled_from([*PARTS, *STATEMENTS])), draw(index), draw(index)))
        values += 2 if lines[-1].does == "a pair" else 1
    returned = draw(st.lists(st.integers(0, values - 1), min_size=1, max_size=3))
    return Program(lines, returned, draw(st.booleans()))


@st.composite
def programs_to_probe(draw):
    program, cfg = draw(programs()), {}
    for i, line in enumerate(program.lines):
        if line.does in PARTS:
            asked = ["InputSndNorm", "OutputGradSndNorm"]
            asked += [norm_of_input_gradient] if line.does != "relu in place" else []
            cfg[f"parts.{i}"] = draw(st.lists(st.sampled_from(asked), min_size=1, unique_by=str))
    assume(cfg)
    return program, cfg


def may_sum_in_another_order(program, cfg):
    """Whether the exception to bit-equality that the documentation names may apply."""
    asked = {each for quantities in cfg.values() for each in quantities}
    does = {line.does for line in program.lines}
    is_changed_as_a_view = bool(does & VIEWS and does & CHANGES)
    return is_changed_as_a_view and "OutputGradSndNorm" in asked


def trained(model, call, dtype=torch.float32):
    """The outputs of a step and all gradients that it leaves."""
    model.to(dtype).zero_grad()
    x = torch.linspace(-1, 1, 3 * N * N, dtype=dtype).reshape(3, N, N).requires_grad_()
    made = call(x)
    weights = (torch.linspace(1, 2, y.numel()).reshape(y.shape) for y in made)
    sum((y * w).sum() for y, w in zip(made, weights, strict=True)).backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return [*(y.detach() for y in made), x.grad, *gradients]


def trained_or_not(model, call):
    """The same; None where torch takes no such program."""
    try:
        return trained(model, call)
    except RuntimeError:
        return None


def assert_alike(expected, found, rtol=1e-5, atol=1e-6):
    for a, b in zip(expected, found, strict=True):
        assert torch.allclose(a, b, rtol=rtol, atol=atol)
        assert a.stride() == b.stride()


def records(monitor):
    monitor.track(0)
    return {(r.module, r.quantity): r.value for r in monitor.records}


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@tried(100, of=300)
def test_programs_train_as_the_plain_ones(examples):
    settings(max_examples=examples)(given(programs_to_probe())(trains_as_the_plain_one))()


def trains_as_the_plain_one(program):
    plain, cfg = program
    probed = taiyi_fx.instrument(copy.deepcopy(plain), cfg)
    expected = trained_or_not(plain, plain)
    assume(expected is not None)
    assert_alike(expected, trained(probed, probed))  # the first forward is looked at, too
    again = trained(plain, plain), trained(probed, probed)
    assert_alike(*again)
    if not may_sum_in_another_order(plain, cfg):
        assert all(torch.equal(a, b) for a, b in zip(*again, strict=True))
    else:  # nothing but the order: in float64 next to nothing is left of it
        again = (trained(each, each, torch.float64) for each in (plain, probed))
        assert_alike(*again, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@given(programs_to_probe())
@settings(max_examples=25)
def test_compiled_programs_train_as_the_plain_ones_and_are_read_as_in_eager_code(program):
    plain, cfg = program
    # The compiler takes some programs that torch itself does not.
    assume(trained_or_not(plain, plain) is not None)
    eager, compiled = (taiyi_fx.instrument(copy.deepcopy(plain), cfg) for _ in range(2))
    expected = trained_or_not(plain, torch.compile(plain, backend="aot_eager"))
    assume(expected is not None)
    torch.compiler.reset()
    found = trained(compiled, torch.compile(compiled, backend="aot_eager", fullgraph=True))
    assert_alike(expected, found)
    trained(eager, eager)
    of_eager, of_compiled = records(eager.monitor), records(compiled.monitor)
    for key, value in of_eager.items():
        if key in of_compiled:
            assert of_compiled[key] == pytest.approx(value, rel=1e-4, abs=1e-5)
        else:
            assert key in compiled.monitor.missing
