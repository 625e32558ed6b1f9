"""Readings of the optimizers' state: of one parameter, of all of a module, and why not."""

import pytest
import torch
from torch import nn

from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.reductions import Norm
from taiyi_fx.step.optimizer_states import OptimizerStates, lacking
from taiyi_fx.step.parameters import ReadingUnavailable

FIRST = Reading(Site("first_moment", "weight"), Norm())
ALL = Reading(Site("first_moment", "all"), Norm())


def trained(kind=torch.optim.Adam):
    model = nn.Linear(3, 2)
    optimizer = kind(model.parameters())
    model(torch.randn(4, 3)).sum().backward()
    return model, optimizer


def states(model, *optimizers):
    return OptimizerStates({"": model}, optimizers, None, 1.0)


def test_all_parameters_of_a_module_are_one_vector():
    model, optimizer = trained()
    model.bias.grad = None
    optimizer.step()
    (of_weight,) = states(model, optimizer).read("", FIRST)
    (of_all,) = states(model, optimizer).read("", ALL)
    assert of_all.item() == of_weight.item()  # the bias has no state
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    (of_all,) = states(model, optimizer).read("", ALL)
    (of_bias,) = states(model, optimizer).read("", Reading(Site("first_moment", "bias"), Norm()))
    (of_weight,) = states(model, optimizer).read("", FIRST)
    assert of_all.item() == pytest.approx((of_weight.square() + of_bias.square()).sqrt().item())


def test_before_the_first_step_it_is_usual_to_have_none():
    model, optimizer = trained()
    with pytest.raises(ReadingUnavailable, match="not updated it yet") as why:
        states(model, optimizer).read("", FIRST)
    assert why.value.is_usual


@pytest.mark.parametrize("freeze", [True, False])
def test_a_parameter_of_no_optimizer_is_frozen_or_a_copy_is_trained(freeze):
    model, _ = trained()
    other = torch.optim.Adam(nn.Linear(3, 2).parameters())
    model.requires_grad_(not freeze)
    why = "weight is frozen" if freeze else "is no parameter of the optimizer, which may train a co"
    with pytest.raises(ReadingUnavailable, match=why):
        states(model, other).read("", FIRST)


def test_a_parametrized_weight_has_no_moment_as_it_is_computed():
    model = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    with pytest.raises(ReadingUnavailable, match="weight is computed of other parameters: ask"):
        states(model, torch.optim.Adam(model.parameters())).read("", FIRST)


def test_a_moment_that_these_options_do_not_keep_is_named():
    model, _ = trained()
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.0)
    optimizer.state[model.weight] = {"other": 1}
    with pytest.raises(
        ReadingUnavailable, match="SGD keeps no first moment where its momentum is 0"
    ):
        states(model, optimizer).read("", FIRST)


def test_a_module_without_the_parameter_says_so():
    model = nn.Linear(3, 2, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    with pytest.raises(ReadingUnavailable, match="bias is None"):
        states(model, optimizer).read("", Reading(Site("first_moment", "bias"), Norm()))


def test_what_one_of_several_optimizers_keeps_is_not_lacking():
    model, adam = trained()
    sgd, own = torch.optim.SGD(model.parameters()), torch.optim.LBFGS(model.parameters())
    assert lacking([], ["second_moment"]) is None
    assert lacking([sgd, adam], ["second_moment"]) is None
    assert lacking([adam], ["first_moment", "step"]) is None
    assert lacking([sgd], ["first_moment"]) is None, "its momentum may be above 0 later"
    text = lacking([sgd, own], ["second_moment"])
    assert text == (
        "the state of SGD tells no second moment and LBFGS is not known: describe it, by "
        "taiyi_fx.describe_optimizer(LBFGS, ...)"
    )
