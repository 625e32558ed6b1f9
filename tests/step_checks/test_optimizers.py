"""Other optimizers of the same class and options."""

import pytest
import torch

from taiyi_fx.step_checks.optimizers import copies_of, refuse_low_rates, trained_by
from taiyi_fx.step_checks.untried import Untried
from tests.step_checks import steps


def test_a_copy_has_the_class_the_groups_and_the_options():
    model, other = steps.net(), steps.net()
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    copies = {id(one): copy for one, copy in pairs}
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters()}, {"params": model[3].parameters(), "lr": 0.5}],
        lr=0.1,
        momentum=0.9,
        nesterov=True,
    )
    (made,) = copies_of([optimizer], copies)
    assert type(made) is torch.optim.SGD
    assert [group["lr"] for group in made.param_groups] == [0.1, 0.5]
    assert all(group["nesterov"] and group["momentum"] == 0.9 for group in made.param_groups)
    assert [*map(id, made.param_groups[1]["params"])] == [*map(id, other[3].parameters())]
    assert not made.state


def test_a_copy_leaves_out_what_nothing_stands_in_for():
    model = steps.net()
    optimizer = torch.optim.Adam(model.parameters())
    (made,) = copies_of([optimizer], {id(model[0].weight): model[0].weight})
    assert [len(group["params"]) for group in made.param_groups] == [1]


def test_rates_that_a_schedule_has_brought_down_are_refused():
    optimizer = torch.optim.Adam(steps.net().parameters(), lr=0.1)
    refuse_low_rates([optimizer])
    torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01)
    with pytest.raises(Untried, match=r"at 0\.001 by its schedule"):
        refuse_low_rates([optimizer])


def test_several_have_the_parameters_of_all():
    model = steps.net()
    both = [torch.optim.Adam(model[i].parameters()) for i in (0, 3)]
    assert [*map(id, trained_by(both))] == [id(p) for i in (0, 3) for p in model[i].parameters()]
