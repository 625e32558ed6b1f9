"""Work: the calls that a step asks for, in the model's order, each under its name in records."""

import pytest
import torch
from torch import nn

from taiyi_fx import reductions
from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.step.work import Statistic, Work, calls_of, finished, works_of
from tests.step.given import Given, bare


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.unused = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(self.fc(x))


def test_calls_are_named_from_the_second_on():
    (asked,) = Given({"0": ["InputSndNorm"]}).subscriptions
    names = [Work.at(asked, "train", call, is_emitted=True).series for call in range(3)]
    assert names == [("0", "InputSndNorm"), ("0@1", "InputSndNorm"), ("0@2", "InputSndNorm")]


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")  # of what is never called
def test_work_is_in_the_order_of_what_is_asked_then_mode_then_call():
    given = Given({nn.Linear: ["InputSndNorm"], "fc": ["WeightNorm"]}, Twice(), record_eval=True)
    given.model(torch.ones(2, 3))
    given.model.eval()(torch.ones(2, 3))
    asked = [(s, s.label == "InputSndNorm") for s in given.subscriptions]
    found = [bare(work) for work in works_of(asked, ("train", "eval"), given.table)]
    assert found == [
        (("fc", "InputSndNorm"), "train", 0, True),
        (("fc@1", "InputSndNorm"), "train", 1, True),
        (("fc", "InputSndNorm"), "eval", 0, True),
        (("fc@1", "InputSndNorm"), "eval", 1, True),
        (("fc", "WeightNorm"), "train", 0, False),
        (("unused", "InputSndNorm"), "train", 0, True),
    ]


def test_of_a_module_that_was_never_called_only_training_has_a_call_to_look_for():
    given = Given({"0": ["InputSndNorm"]})
    (asked,) = given.subscriptions
    assert list(calls_of(asked, "train", given.table)) == [0]
    assert list(calls_of(asked, "eval", given.table)) == []


@pytest.mark.parametrize("factor", [1.0, 0.5, -2.0])
def test_a_statistic_is_finished_as_that_of_the_scaled_tensor(factor):
    x = torch.randn(7, 3, dtype=torch.float64)
    reading = Reading(Site("output_grad"), reductions.Norm())
    found = finished(reading, reading.reduction.measure(x), factor)
    assert found.item() == pytest.approx((x * factor).norm().item(), rel=1e-12)


def test_a_statistic_in_numbers_of_python_is_finished_as_one_in_tensors():
    x = torch.randn(7, 3)
    reduction = reductions.Norm()
    reading = Reading(Site("input"), reduction)
    state = reduction.measure(x)
    numbers = tuple(part.item() for part in state)
    found = [Statistic(reading, each, 4.0).finished() for each in (state, numbers)]
    assert found[0].item() == pytest.approx(found[1].item(), rel=1e-12)
    assert found[0].item() == pytest.approx(4 * x.double().norm().item(), rel=1e-6)
