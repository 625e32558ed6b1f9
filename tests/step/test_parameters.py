"""Parameters, gradients and buffers are read by one call each reduction, or alone, to equal values."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune

from taiyi_fx import reductions
from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.step.parameters import ParameterStatistics, ReadingUnavailable, parameter_readings
from taiyi_fx.step.work import Statistic

NORM = reductions.Norm()
WEIGHT = Reading(Site("parameter", "weight"), NORM)
GRADIENT = Reading(Site("parameter_grad", "weight"), NORM)


@dataclasses.dataclass(frozen=True)
class Alone(reductions.Norm):
    """A norm that is not measured together with others, since `measure` is its own."""

    def measure(self, x):
        return super().measure(x)


def layers(n=3):
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(n)))


def measured(model, keys):
    modules = dict(model.named_modules())
    statistics = ParameterStatistics(modules, None)
    for readings in parameter_readings(keys, modules):
        statistics.measure(readings)
    return statistics


def value(statistics, key):
    return Statistic(key[1], statistics.of(key), 1.0).finished().item()


@pytest.mark.parametrize("reduction", [NORM, Alone()], ids=["together", "alone"])
def test_values_are_those_in_float64(reduction):
    model = layers()
    model(torch.randn(5, 4)).square().sum().backward()
    readings = [
        Reading(Site(port, "weight"), reduction) for port in ("parameter_grad", "parameter")
    ]
    keys = [(name, reading) for name in "012" for reading in readings]
    statistics = measured(model, keys)
    for name, reading in keys:
        weight = model[int(name)].weight
        x = weight if reading.site.port == "parameter" else weight.grad
        assert value(statistics, (name, reading)) == pytest.approx(
            x.double().norm().item(), rel=1e-6
        )


def test_all_of_one_reduction_is_one_call():
    calls = []

    class Counted(reductions.Norm):
        def measure(self, x):
            raise AssertionError("measured alone")

        def measure_many(self, tensors):
            calls.append(len(tensors))
            return reductions.Norm().measure_many(tensors)

    model, reduction = layers(), Counted()
    model(torch.randn(2, 4)).sum().backward()
    ports = ("parameter", "parameter_grad")
    keys = [(name, Reading(Site(port, "weight"), reduction)) for name in "012" for port in ports]
    measured(model, keys)
    assert calls == [6]


def test_one_that_fails_among_many_is_the_only_one_without_a_value():
    class Picky(reductions.Norm):
        def measure(self, x):
            if x.max() > 100:
                raise ValueError("too large")
            return super().measure(x)

        def measure_many(self, tensors):
            raise ValueError("one of these is too large")

    model, reading = layers(), Reading(Site("parameter", "weight"), Picky())
    with torch.no_grad():
        model[1].weight.fill_(101.0)
    statistics = measured(model, [(name, reading) for name in "012"])
    for name in "02":
        expected = model[int(name)].weight.double().norm().item()
        assert value(statistics, (name, reading)) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match="too large"):
        statistics.of(("1", reading))


def test_a_missing_gradient_leaves_the_others_their_values():
    model = layers()
    model(torch.randn(2, 4)).sum().backward()
    model[1].weight.grad = None
    statistics = measured(model, [(name, GRADIENT) for name in "012"])
    for name in "02":
        expected = model[int(name)].weight.grad.double().norm().item()
        assert value(statistics, (name, GRADIENT)) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ReadingUnavailable, match="no gradient reached weight$"):
        statistics.of(("1", GRADIENT))


def test_where_no_parameter_has_a_gradient_it_is_asked_about_zero_grad():
    text = r"no gradient reached weight; was track called after zero_grad\(\)\?"
    with pytest.raises(ReadingUnavailable, match=text):
        measured(layers(), [("0", GRADIENT)]).of(("0", GRADIENT))


def test_a_frozen_parameter_has_no_gradient():
    model = layers()
    model[0].weight.requires_grad_(False)
    with pytest.raises(ReadingUnavailable, match=r"weight is frozen \(requires_grad is False\)"):
        measured(model, [("0", GRADIENT)]).of(("0", GRADIENT))


def test_a_computed_weight_has_no_gradient_unless_it_is_retained():
    model = layers()
    for layer, keeps in zip(model, (False, True), strict=False):
        prune.l1_unstructured(layer, "weight", 0.5)
        layer.weight.retain_grad() if keeps else None
    loss = F.linear(torch.randn(2, 4), model[0].weight @ model[1].weight).sum()
    loss.backward()
    statistics = measured(model, [(name, GRADIENT) for name in "01"])  # torch warns of others
    expected = model[1].weight.grad.double().norm().item()
    assert value(statistics, ("1", GRADIENT)) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ReadingUnavailable, match="weight is computed of other parameters"):
        statistics.of(("0", GRADIENT))


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_parametrized_weight_has_no_gradient_as_it_is_computed(is_frozen):
    model = layers()
    nn.utils.parametrizations.weight_norm(model[0])
    nn.utils.parametrizations.spectral_norm(model[1])
    model.requires_grad_(not is_frozen)
    statistics = measured(model, [(name, GRADIENT) for name in "01"])
    for name in "01":
        with pytest.raises(ReadingUnavailable, match="weight is computed of other parameters"):
            statistics.of((name, GRADIENT))


def test_all_parameters_of_a_module_are_read_as_one():
    model = layers()
    reading = Reading(Site("parameter", "all"), NORM)
    expected = torch.cat([p.double().reshape(-1) for p in model.parameters()]).norm().item()
    assert value(measured(model, [("", reading)]), ("", reading)) == pytest.approx(
        expected, rel=1e-6
    )


def test_a_sparse_gradient_is_read_as_a_dense_one():
    model = nn.Embedding(9, 4, sparse=True)
    model(torch.tensor([1, 3, 3])).square().sum().backward()
    assert model.weight.grad.is_sparse
    expected = model.weight.grad.to_dense().double().norm().item()
    assert value(measured(model, [("", GRADIENT)]), ("", GRADIENT)) == pytest.approx(
        expected, rel=1e-6
    )


def test_a_buffer_is_read():
    model = nn.BatchNorm1d(4)
    model.running_mean.copy_(torch.tensor([3.0, 4.0, 0.0, 0.0]))
    reading = Reading(Site("buffer", "running_mean"), NORM)
    assert value(measured(model, [("", reading)]), ("", reading)) == pytest.approx(5.0)


def test_a_parametrized_weight_is_the_computed_one():
    model = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    expected = model.weight.detach().double().norm().item()
    assert value(measured(model, [("", WEIGHT)]), ("", WEIGHT)) == pytest.approx(expected, rel=1e-6)


def test_readings_at_calls_are_left_out_and_gradients_come_last():
    modules = dict(layers().named_modules())
    at_call = Reading(Site("input"), NORM)
    keys = [("0", GRADIENT), ("0", at_call), ("1", WEIGHT), ("1", WEIGHT), ("2", GRADIENT)]
    (readings,) = parameter_readings(keys, modules)
    assert list(readings.rows) == [("1", WEIGHT), ("0", GRADIENT), ("2", GRADIENT)]
    assert readings.first_gradient == 1


def test_own_tensors_are_found_where_each_is_a_usual_one():
    model = layers()
    model(torch.randn(2, 4)).sum().backward()
    keys = [("0", WEIGHT), ("1", GRADIENT)]
    (readings,) = parameter_readings(keys, dict(model.named_modules()))
    weight, gradient = readings.own_tensors()
    assert weight is model[0].weight
    assert gradient is model[1].weight.grad
    model[1].weight.grad = None
    assert readings.own_tensors() is None
    del model[1].weight
    assert readings.own_tensors() is None


def test_vectors_hold_a_row_of_each_key():
    model = layers()
    keys = [(name, WEIGHT) for name in "012"]
    statistics = measured(model, keys)
    (norms,), rows = statistics.vectors[WEIGHT.reduction]
    assert list(rows) == keys
    assert list(norms) == [value(statistics, key) for key in keys]
    assert statistics.vectors_with(("0", WEIGHT)) is not None
    assert statistics.vectors_with(("", WEIGHT)) is None
