"""Calls of functions as targets: where a graph shows them, and what is said where none does."""

import math
import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx

NORMS = ["InputSndNorm", "ForwardOutput", "OutputGradSndNorm"]
SDPA = F.scaled_dot_product_attention


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()

    def forward(self, x):
        return x + self.attention(x)


class Python(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        with torch.enable_grad():
            for block in self.blocks:
                x = block(x)
        return x


def nested():
    return nn.Sequential(Block(), Block())


def stepped(model, x):
    output = model(x)
    output.square().sum().backward()
    model.monitor.track(0)
    return output, model.monitor.get_output()


@pytest.mark.parametrize("build", [nested, Python])
@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_values_and_gradients_of_calls(build, backend):
    torch.manual_seed(0)
    plain = build()
    model = taiyi_fx.instrument(plain, {SDPA: NORMS, operator.add: NORMS[:2]})
    runs = model if backend is None else torch.compile(model, backend=backend, fullgraph=True)
    x = torch.randn(2, 3, 4)
    output = runs(x)
    output.square().sum().backward()
    model.monitor.track(0)
    found = model.monitor.get_output()
    assert torch.equal(output, plain(x)) or backend
    *outer, last = plain.children() if build is nested else plain.blocks
    hidden = outer[0](x).detach().requires_grad_()
    attended = last.attention(hidden)
    attended.retain_grad()
    (hidden + attended).square().sum().backward()
    name = "1" if build is nested else "blocks.1"
    site = found[f"{name}.attention.scaled_dot_product_attention()"]
    assert site["InputSndNorm"][0] == pytest.approx(last.attention.q(hidden).norm().item(), 1e-5)
    assert torch.allclose(site["ForwardOutput"][0], attended, atol=1e-6)
    assert site["OutputGradSndNorm"][0] == pytest.approx(attended.grad.norm().item(), 1e-5)
    assert torch.allclose(found[f"{name}.operator.add()"]["ForwardOutput"][0], output, atol=1e-6)
    assert len(found) == 4


def test_each_call_in_a_module_is_its_own_series():
    class Twice(nn.Module):
        def forward(self, x):
            return torch.tanh(x.tanh()).tanh() + torch.relu(input=x) + F.relu(x)

    cfg = {f: ["InputSndNorm"] for f in (torch.tanh, torch.Tensor.tanh, torch.relu, F.relu)}
    model = taiyi_fx.instrument(nn.Sequential(Twice()), cfg)
    _, found = stepped(model, torch.ones(1, requires_grad=True))
    values = {name: entry["InputSndNorm"][0] for name, entry in found.items()}
    once = math.tanh(1)
    assert values == pytest.approx(
        {
            "0.Tensor.tanh()": 1.0,
            "0.tanh()": once,
            "0.Tensor.tanh()@1": math.tanh(once),
            "0.relu()": 1.0,
            "0.torch.nn.functional.relu()": 1.0,
        }
    )


def test_an_input_of_a_call_by_position_and_its_gradient():
    options = {"tensor": 1}
    cfg = {SDPA: [["InputSndNorm", "linear(0, 0)", options], "BackwardInput"]}
    model = taiyi_fx.instrument(nn.Sequential(Block()), cfg)
    _, found = stepped(model, x := torch.randn(2, 3, 4))
    site = found["0.attention.scaled_dot_product_attention()"]
    keys = model[0].attention.k(x)
    (value,) = (v for k, v in site.items() if k.startswith("InputSndNorm"))
    assert value[0] == pytest.approx(keys.norm().item(), rel=1e-5)
    assert site["BackwardInput"][0].shape == x.shape


def problems(model, cfg):
    with pytest.raises(taiyi_fx.ConfigError) as caught:
        taiyi_fx.instrument(model, cfg)
    return caught.value.problems


def test_what_a_graph_does_not_call_is_said_with_what_it_calls():
    (problem,) = problems(nested(), {operator.mul: NORMS})
    assert problem == (
        "cfg[operator.mul]: the model's graph has no call of operator.mul; it calls operator.add, "
        "scaled_dot_product_attention"
    )


class Hidden(Attention):
    def forward(self, x):
        with torch.enable_grad():
            return super().forward(x) + F.scaled_dot_product_attention(x, x, x)


def test_calls_in_a_forward_that_stayed_python_are_read_too():
    model = taiyi_fx.instrument(nn.Sequential(Block(), Hidden()), {SDPA: NORMS})
    output, found = stepped(model, x := torch.randn(1, 2, 4))
    name = "scaled_dot_product_attention"
    assert list(found) == [f"0.attention.{name}()", f"1.{name}()", f"1.{name}()@1"]
    plain, hidden = model[1], model[0](x).detach()
    first = SDPA(plain.q(hidden), plain.k(hidden), plain.v(hidden)).detach().requires_grad_()
    second = SDPA(hidden, hidden, hidden)
    (first + second).square().sum().backward()
    site, again = found[f"1.{name}()"], found[f"1.{name}()@1"]
    assert site["InputSndNorm"][0] == pytest.approx(plain.q(hidden).norm().item(), 1e-5)
    assert site["OutputGradSndNorm"][0] == pytest.approx(first.grad.norm().item(), 1e-5)
    assert torch.allclose(again["ForwardOutput"][0], second)
    assert torch.equal(output, plain(model[0](x)))


def test_operators_in_a_forward_that_stayed_python_are_those_of_its_own_code():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Hidden()

        def forward(self, x):
            with torch.enable_grad():
                return 1 - (x.add(1) + self.inner(x))

    cfg = {operator.add: ["InputSndNorm"], operator.sub: ["InputSndNorm"]}
    _, found = stepped(taiyi_fx.instrument(Own(), cfg), x := torch.randn(1, 2, 4))
    assert list(found) == ["operator.add()", "operator.sub()", "inner.operator.add()"]
    value = found["operator.add()"]["InputSndNorm"][0]
    assert value == pytest.approx((x + 1).norm().item(), 1e-5)


class Operators(nn.Module):
    def forward(self, x):
        y, i = x.abs() + 1, x.abs().int() + 1
        floats = [
            y - 2,
            2 - y,
            2 * y,
            y / 3,
            3 / y,
            y // 2,
            7 // y,
            y % 2,
            7 % y,
            y**2,
            2**y,
            y @ y,
        ]
        floats += [-y, +y, y[0], y[:1], y[y > 1]]
        whole = [i & 3, 3 & i, i | 3, i ^ 3, i << 1, 1 << i, i >> 1, 8 >> i, ~i]
        whole += [y == 1, y != 1, y < 1, y <= 1, y > 1, y >= 1, y > 1]
        z, j = y * 1, i * 1
        z += 1
        z -= 2
        z *= 3
        z /= 2
        z **= 2
        z //= 2
        z %= 7
        z[0] = y[1]
        z[1:] = y[1:]
        z[0] += 1
        j <<= 1
        j >>= 1
        j &= 7
        j |= 2
        j ^= 3
        return torch.stack([t.sum() for t in [*floats, *whole, z, j]])


class OperatorsInPython(Operators):
    def forward(self, x):
        with torch.enable_grad():
            return super().forward(x)


# No tensor has `@=`.
OPERATORS = [
    getattr(operator, name)
    for name in """add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift neg pos invert eq ne
    lt le gt ge getitem setitem iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift""".split()
]  # fmt: skip


@pytest.mark.parametrize("function", OPERATORS)
def test_each_operator_is_read_in_python_as_a_graph_shows_it(function):
    found = []
    for kind in (Operators, OperatorsInPython):
        plain = kind()
        model = taiyi_fx.instrument(nn.Sequential(plain), {function: ["InputAbsMax", "InputMean"]})
        assert model.capture.is_whole == (kind is Operators)
        x = torch.linspace(-2, 2, 9).reshape(3, 3)
        assert torch.equal(model(x), plain(x))
        model.monitor.track(0)
        found.append(model.monitor.get_output())
    assert found[0] == found[1]
    assert found[0]


def test_an_edit_of_a_call_is_made_in_python_and_refused_where_that_is_compiled():
    cfg = {SDPA: [taiyi_fx.edit(value=lambda y: 2 * y)]}
    plain = Hidden()
    x = torch.randn(1, 2, 4)
    expected = plain(x)
    model = taiyi_fx.instrument(plain, cfg)
    assert torch.allclose(model(x), 2 * expected)
    assert torch.equal(plain(x), expected)
    with pytest.raises(Exception, match="cannot be made in compiled code"):
        torch.compile(model, backend="eager", fullgraph=True)(x)


def test_a_function_that_nothing_seems_to_call_is_an_error_that_says_where_was_looked():
    (problem,) = problems(nn.Sequential(Hidden()), {operator.mul: NORMS})
    assert "none of the forwards that stayed Python seems to call it" in problem
    assert "'0': uses `with torch.enable_grad()` (test_function_targets.py:" in problem


def test_what_a_call_cannot_have_is_an_error():
    (problem,) = problems(nested(), {operator.add: ["WeightNorm"]})
    assert "WeightNorm is not available: '0.operator.add()' (FunctionCall) has no weight" in problem

    class InPlace(nn.Module):
        def forward(self, x):
            y = x * 2
            y += 1
            return y

    (problem,) = problems(nn.Sequential(InPlace()), {operator.iadd: ["BackwardInput"]})
    assert "changes its input in place" in problem


def test_calls_are_read_where_a_graph_cannot_run_any_more():
    model = taiyi_fx.instrument(nested(), {SDPA: NORMS})
    model[0].attention.q = nn.Linear(4, 4)
    _, found = stepped(model, torch.randn(1, 2, 4))
    assert list(found) == [f"{i}.attention.scaled_dot_product_attention()" for i in (0, 1)]


def test_a_call_that_is_made_no_more_is_said():
    model = taiyi_fx.instrument(nested(), {SDPA: NORMS})
    model[0].attention = nn.Linear(4, 4)
    model(torch.randn(1, 2, 4)).sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="0.attention.*this call was not seen in a"):
        model.monitor.track(0)


def test_a_predicate_is_no_function():
    model = taiyi_fx.instrument(nested(), {(lambda name, module: name == "0"): ["InputSndNorm"]})
    assert list(stepped(model, torch.randn(1, 2, 4))[1]) == ["0"]


def test_the_diagram_marks_calls_of_functions():
    model = taiyi_fx.instrument(nested(), {SDPA: NORMS})
    items = dict(taiyi_fx.diagram(model).to_networkx().nodes(data="item")).values()
    marked = [(item.label, item.module) for item in items if item.marks]
    name = "scaled_dot_product_attention"
    assert marked == [(name, f"{i}.attention.{name}()") for i in (0, 1)]
