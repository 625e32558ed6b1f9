"""Probes on values of any structure, and the autograd Functions behind them."""

import pytest
import torch

from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.passes.probes.board import Board
from taiyi_fx.passes.probes.probe import Probe
from taiyi_fx.passes.probes.slots import Slot
from taiyi_fx.reductions import Norm


def tap(*ports):
    board = Board()
    slots = [Slot("m", Reading(Site(port), Norm()), board.touched) for port in ports]
    return Probe("m.output", slots, board), slots


def test_a_gradient_probe_returns_the_value_and_folds_its_gradient():
    probe, (value, gradient) = tap("output", "output_grad")
    x = torch.randn(3, requires_grad=True)
    y = probe(x * 2)
    (y * torch.tensor([1.0, 2.0, 2.0])).sum().backward()
    assert torch.equal(x.grad, torch.tensor([2.0, 4.0, 4.0]))
    assert gradient.state[0] == 3
    assert value.state is None  # it waits for others
    probe.board.measure()
    probe.board.held.settle()
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
