"""What one step's readings left: with the loss scale taken out, or the reason why there is nothing."""

import math

import pytest
import torch
from torch import nn

from taiyi_fx import reductions
from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.step.parameters import ReadingUnavailable
from taiyi_fx.step.statistics import Scale
from taiyi_fx.step.work import works_of
from tests.step.given import Given


def scaler_after(*, unscaled, enabled=True):
    """A scaler of 8 and whether it has already taken its scale out of an optimizer's gradients."""
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight])
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, enabled=enabled)
    scaler.scale(weight.sum()).backward()
    if unscaled:
        scaler.unscale_(optimizer)
    return scaler


@pytest.mark.parametrize(
    ("given", "scale"),
    [
        (lambda: None, Scale(1.0, 1.0)),
        (lambda: 4.0, Scale(0.25, 0.25)),
        (lambda: 0.0, Scale(math.inf, math.inf)),
        (lambda: scaler_after(unscaled=False), Scale(1 / 8, 1 / 8, may_overflow=True)),
        (lambda: scaler_after(unscaled=True), Scale(1 / 8, 1.0, may_overflow=True)),
        (lambda: scaler_after(unscaled=False, enabled=False), Scale(1.0, 1.0)),
    ],
    ids=["none", "number", "zero", "scaler", "scaler after unscale", "scaler switched off"],
)
def test_a_scale_is_the_inverse_of_the_loss_scale(given, scale):
    assert Scale.of(given()) == scale


def test_only_gradients_are_scaled():
    scale = Scale(0.5, 0.25)
    ports = [
        "input",
        "output",
        "input_grad",
        "output_grad",
        "parameter",
        "parameter_grad",
        "buffer",
    ]
    found = {port: scale.factor(Reading(Site(port), reductions.Norm())) for port in ports}
    assert found == {
        "input": 1.0,
        "output": 1.0,
        "input_grad": 0.5,
        "output_grad": 0.5,
        "parameter": 1.0,
        "parameter_grad": 0.25,
        "buffer": 1.0,
    }


def first_work(given):
    (asked,) = given.subscriptions
    (work,) = works_of([(asked, True)], ("train",), given.table)
    return work


def test_work_is_read_with_its_statistics_and_their_scale():
    given = Given({"0": ["OutputGradSndNorm"]})
    x = torch.randn(5, 3)
    (given.model(x).square().sum() * 4).backward()
    given.table.measure()
    given.table.board.held.settle()
    work = given.statistics(Scale.of(4.0)).read(first_work(given))
    (statistic,) = work.statistics.values()

    first, second = (layer.weight.detach().double() for layer in given.model)
    hidden = x.double() @ first.T + given.model[0].bias.double()
    y = hidden @ second.T + given.model[1].bias.double()
    expected = (2 * y @ second).norm().item()
    assert statistic.finished().item() == pytest.approx(expected, rel=1e-6)


def test_a_module_that_was_not_called_says_so():
    given = Given({"0": ["InputSndNorm"]})
    with pytest.raises(ReadingUnavailable, match="the module was not called in a training forward"):
        given.statistics().read(first_work(given))


def test_a_gradient_that_did_not_come_has_been_seen_by_the_forward():
    given = Given({"0": ["OutputGradSndNorm"]})
    given.model(torch.randn(2, 3))
    given.table.measure()
    given.table.board.held.settle()
    with pytest.raises(ReadingUnavailable) as caught:
        given.statistics().read(first_work(given))
    assert caught.value.seen


def test_a_reading_that_failed_raises_what_it_raised():
    given = Given({"0": ["InputSndNorm"]})
    (slot,) = given.table.at("train", "0", 0).values()
    slot.fail(RuntimeError("no luck"))
    with pytest.raises(RuntimeError, match="no luck"):
        given.statistics().read(first_work(given))


def test_a_trained_weight_is_the_same_for_layers_that_share_it():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    model[2].weight = model[0].weight
    statistics = Given({}, model).statistics()
    first, second, third = (statistics.trained_weight(name) for name in "012")
    assert first == third != second


def test_a_frozen_weight_is_not_trained():
    given = Given({})
    given.model[0].weight.requires_grad_(False)
    with pytest.raises(ReadingUnavailable, match=r"weight is frozen \(requires_grad is False\)"):
        given.statistics().trained_weight("0")


def test_a_rank_alone_reads_nothing_in_parts():
    given = Given({"0": ["WeightNorm"]})
    (reading,) = given.subscriptions[0].readings.values()
    assert not given.statistics().is_in_parts("0", reading)


def test_micro_batches_divide_gradients_of_calls_alone():
    assert Scale.of(None).over(1) is Scale.of(None)
    assert Scale.of(8.0).over(4) == Scale(1 / 32, 1 / 8)
    with pytest.raises(ValueError, match="micro_batches is a number of at least 1, not 0"):
        Scale.of(None).over(0)
    with pytest.raises(TypeError, match="micro_batches is a whole number, not 1.5"):
        Scale.of(None).over(1.5)  # pyright: ignore
