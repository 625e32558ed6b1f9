"""Probes on values of any structure, and the autograd Functions behind them."""

import dataclasses
from collections import OrderedDict, namedtuple

import pytest
import torch
from torch import nn

from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.passes.probes.probe import Probe
from taiyi_fx.passes.probes.slots import Slot
from taiyi_fx.passes.structure import Call, find_tensor, replace_tensor
from taiyi_fx.reductions import Norm

Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Output:
    loss: object
    logits: torch.Tensor


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: torch.Tensor


T, U = torch.ones(2), torch.zeros(3)
STRUCTURES = [
    T, (T, U), [1, T], {"n": 1, "x": T}, Pair(None, T), Output(None, T), Frozen(T),
    (1, {"x": [Pair("s", T)]}), OrderedDict(x=T), Call((None,), {"x": T}),
    torch.return_types.max((T, U)),
]  # fmt: skip


@pytest.mark.parametrize("value", STRUCTURES, ids=lambda v: type(v).__name__)
def test_the_first_tensor_is_found_and_replaced_in_any_structure(value):
    assert find_tensor(value, None) is T
    new = torch.full((2,), 5.0)
    replaced = replace_tensor(value, T, new)
    assert type(replaced) is type(value)
    assert find_tensor(replaced, None) is new
    assert find_tensor(value, None) is T


def test_picks_are_positions_keys_and_arguments():
    assert find_tensor((T, U), 1) is U
    assert find_tensor({"a": T, "b": (None, U)}, "b") is U
    assert find_tensor(Output(T, U), "logits") is U
    assert find_tensor(Call((T, U), {}), (1, "mask")) is U
    assert find_tensor(Call((T,), {"mask": U}), (1, "mask")) is U
    assert find_tensor(Call((T,), {}), (1, "mask")) is None
    assert find_tensor((T,), 3) is None
    assert find_tensor("text", None) is None


def tap(*ports):
    slots = [Slot("m", Reading(Site(port), Norm())) for port in ports]
    return Probe("m.output", slots), slots


def test_a_gradient_probe_returns_the_value_and_folds_its_gradient():
    probe, (value, gradient) = tap("output", "output_grad")
    x = torch.randn(3, requires_grad=True)
    y = probe(x * 2)
    (y * torch.tensor([1.0, 2.0, 2.0])).sum().backward()
    assert torch.equal(x.grad, torch.tensor([2.0, 4.0, 4.0]))
    assert gradient.state[0] == 3
    assert value.state[0] == pytest.approx((2 * x).norm().item())


@pytest.mark.parametrize("make", [torch.relu, torch.sigmoid, lambda x: x * 2, lambda x: x + 1])
@pytest.mark.parametrize("change", [torch.relu_, lambda y: y.add_(1), lambda y: y.mul_(y.detach())])
def test_in_place_operations_after_a_probe_are_what_they_are_without(make, change):
    def run(probe):
        x = torch.linspace(-1, 1, 5).requires_grad_()
        y = probe(make(x))
        try:
            y = change(y)
            y.square().sum().backward()
        except RuntimeError as error:
            return str(error)[:60]
        return x.grad

    plain, probed = run(lambda y: y), run(tap("output_grad")[0])
    assert type(plain) is type(probed)
    assert plain == probed if isinstance(plain, str) else torch.equal(plain, probed)


@pytest.mark.parametrize("reused", [True, False])
def test_a_view_changed_in_place_later_keeps_its_gradient(reused):
    def run(probe):
        w = torch.linspace(-1, 1, 12).reshape(4, 3).requires_grad_()
        base = torch.ones(2, 4) @ w
        y = probe(base.view(-1))
        y.mul_(3)
        (y.square().sum() + (base.sin().sum() if reused else 0)).backward()
        return w.grad

    assert torch.equal(run(lambda y: y), run(tap("output_grad")[0]))


def test_a_view_that_stays_as_it_is_gives_its_gradient():
    probe, (slot,) = tap("output_grad")
    x = torch.randn(2, 3, requires_grad=True)
    y = probe(x.view(6))
    (2 * y).sum().backward()
    assert slot.state[0] == pytest.approx((torch.ones(6) * 2).norm().item())


def test_double_backward_goes_through():
    probe, _ = tap("output_grad")
    x = torch.tensor([2.0], requires_grad=True)
    (g,) = torch.autograd.grad(probe(x**3).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert h == 12


def test_a_copy_of_a_part_gets_its_own_forward():
    """Exponential averages and momentum encoders copy parts of an instrumented model."""
    import copy
    import pickle

    import taiyi_fx

    model = taiyi_fx.instrument(
        nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU())), {nn.Linear: ["InputSndNorm"]}
    )
    for part in (copy.deepcopy(model[0]), pickle.loads(pickle.dumps(model[0]))):
        with torch.no_grad():
            part[0].weight.fill_(7)
        x = torch.ones(1, 2)
        assert torch.allclose(part(x), part[0].bias + 14)
        assert not torch.equal(model(x), part(x))
        assert part[0].weight is not model[0][0].weight
