"""What torch's optimizers are described by, in the state of steps that they made.

What a step moves is compared with the step itself in tests/quantities/stock/test_optimizer.py.
"""

import pytest
import torch
from torch import nn

from taiyi_fx.optimizers import TrainedParameter, description_of
from taiyi_fx.optimizers.stock import adafactor_second_moment, adam_first_moment

TOLD = {
    torch.optim.Adam: ("first_moment", "second_moment", "step"),
    torch.optim.AdamW: ("first_moment", "second_moment", "step"),
    torch.optim.NAdam: ("first_moment", "second_moment"),
    torch.optim.RAdam: ("first_moment", "second_moment"),
    torch.optim.Adamax: ("first_moment",),
    torch.optim.SGD: ("first_moment", "step"),
    torch.optim.RMSprop: ("second_moment", "step"),
    torch.optim.Adagrad: ("second_moment", "step"),
    torch.optim.Adafactor: ("second_moment", "step"),
}


@pytest.mark.parametrize("kind", TOLD)
def test_each_tells_what_its_state_has(kind):
    p = nn.Parameter(torch.randn(4, 3))
    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    optimizer = kind([p], lr=0.01, **options)
    for _ in range(3):
        p.grad = torch.ones_like(p)
        optimizer.step()
    description = description_of(optimizer)
    of = TrainedParameter(p, p.grad, optimizer.state[p], optimizer.param_groups[0])
    for name in ("first_moment", "second_moment", "step"):
        tells = getattr(description, name)
        assert (tells is not None) == (name in TOLD[kind])
        if tells is not None:
            assert tells(of).shape == p.shape


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.NAdam, torch.optim.Adamax])
def test_the_mean_of_equal_gradients_is_the_gradient(kind):
    p = nn.Parameter(torch.randn(4, dtype=torch.float64))
    optimizer = kind([p])
    g = torch.randn(4, dtype=torch.float64)
    for _ in range(3):
        p.grad = g.clone()
        optimizer.step()
    of = TrainedParameter(p, p.grad, optimizer.state[p], optimizer.param_groups[0])
    torch.testing.assert_close(adam_first_moment(of), g)


def test_no_step_yet_is_no_moment():
    p = nn.Parameter(torch.randn(4))
    state = {"exp_avg": torch.zeros(4), "step": torch.tensor(0.0)}
    of = TrainedParameter(p, None, state, {"betas": (0.9, 0.999)})
    with pytest.raises(KeyError):
        adam_first_moment(of)


def test_means_of_squares_of_rank_one_are_those_that_adafactor_keeps():
    p = nn.Parameter(torch.randn(4, 3, dtype=torch.float64))
    optimizer = torch.optim.Adafactor([p])
    p.grad = torch.outer(torch.arange(1.0, 5), torch.arange(1.0, 4)).double()
    optimizer.step()
    of = TrainedParameter(p, p.grad, optimizer.state[p], optimizer.param_groups[0])
    torch.testing.assert_close(adafactor_second_moment(of), p.grad.square())


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch is older than 2.9")
def test_muon_has_its_momentum():
    p = nn.Parameter(torch.randn(4, 3))
    optimizer = torch.optim.Muon([p], momentum=0.5)
    p.grad = torch.ones_like(p)
    optimizer.step()
    of = TrainedParameter(p, p.grad, optimizer.state[p], optimizer.param_groups[0])
    description = description_of(optimizer)
    assert description is not None
    assert description.first_moment is not None
    assert description.first_moment(of).unique().tolist() == [0.5]
