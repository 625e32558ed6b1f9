"""What the mean of the targets costs, against torch itself."""

import pytest
import torch
import torch.nn.functional as F

from taiyi_fx.findings.facts.regression import regression_of

ERRORS = {
    "mse": F.mse_loss,
    "smooth l1": F.smooth_l1_loss,
    "smooth l1 of 0.3": lambda x, y: F.smooth_l1_loss(x, y, beta=0.3),
    "huber": lambda x, y: F.huber_loss(x, y, delta=0.7),
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("shape", [(64,), (64, 3), (64, 5, 3), (32, 3, 4, 4)], ids=str)
@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_constant_costs_what_the_loss_of_the_means_does(error, shape, factor):
    torch.manual_seed(0)
    targets = 5 + 2 * torch.randn(shape)
    returned = (3 * torch.randn(shape)).requires_grad_()
    notes = regression_of(factor * error(returned * 1.0, targets))
    assert notes is not None
    found = notes.read()
    outputs = len(shape) - 1 if len(shape) < 4 else 1
    axes = [axis for axis in range(len(shape)) if len(shape) == 1 or axis != outputs]
    means = targets.mean(axes, keepdim=True).expand(shape)
    cases = targets.numel() // (1 if len(shape) == 1 else shape[outputs])
    expected = factor * error(means, targets).item() * cases / (cases - 1)
    assert found.cases == cases
    assert found.constant == pytest.approx(expected, rel=1e-4)
    assert found.target == pytest.approx(2, rel=0.2)
    assert found.target_mean == pytest.approx(5, rel=0.2)
    assert found.returned == pytest.approx(3, rel=0.2)


def of_sum(x, y):
    return F.mse_loss(x, y, reduction="sum")


def with_a_term(x, y):
    return F.mse_loss(x, y) + 0.1 * x.abs().mean()


def of_two(x, y):
    return F.mse_loss(x, y) + F.mse_loss(x, -y)


def of_a_moving_target(x, y):
    return F.mse_loss(x, y * x.mean())


@pytest.mark.parametrize(
    "loss", [of_sum, with_a_term, of_two, of_a_moving_target, lambda x, y: F.l1_loss(x, y)]
)
def test_of_other_losses_nothing_is_said(loss):
    x = torch.randn(64, 2, requires_grad=True)
    assert regression_of(loss(x * 1.0, torch.randn(64, 2))) is None


def test_of_few_samples_of_numbers_and_after_a_backward_nothing_is_said():
    x = torch.randn(8, 3, requires_grad=True)
    assert regression_of(F.mse_loss(x * 1.0, torch.randn(8, 3))) is None
    assert regression_of(F.mse_loss(x.sum() * 1.0, torch.tensor(1.0))) is None
    assert regression_of(2.0) is None
    y = torch.randn(64, 3, requires_grad=True)
    loss = F.mse_loss(y * 1.0, torch.randn(64, 3))
    loss.backward()
    assert regression_of(loss) is None
