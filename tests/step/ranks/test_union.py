"""What the ranks sent becomes work of all of them, and what one lacks is told by its rank."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.step.parameters import parameter_readings
from taiyi_fx.step.ranks.bucket import Offer
from taiyi_fx.step.ranks.group import Ranks
from taiyi_fx.step.ranks.union import Union
from taiyi_fx.step.statistics import Scale, Statistics
from tests.step.ranks.given import exchanged


class Given:
    """Three ranks, of which the first records, and what their readings would be."""

    def __init__(self, cfg, *, scale=None, bringing=(0, 1, 2)):
        self.model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 3)), cfg)
        self.subscriptions = self.model.monitor.subscriptions
        every = [(s.module, r) for s in self.subscriptions for r in s.readings.values()]
        self.numbers = {of: i for i, of in enumerate(dict.fromkeys(every))}
        modules = dict(self.model.named_modules())
        self.ranks = Ranks(None, (4, 6, 9), 0, frozenset(bringing), None)
        scale = Scale() if scale is None else scale
        table = self.model.monitor._tracker._table
        self.statistics = Statistics(modules, table, scale, self.ranks.members)

    def works(self, of_ranks, failures=None):
        union = Union(exchanged(of_ranks), self.numbers, self.ranks, self.statistics)
        asked = [(s, True) for s in self.subscriptions]
        return list(union.works(asked, {} if failures is None else failures))

    def offer(self, x):
        (reading,) = self.subscriptions[0].readings.values()
        return Offer(reading.reduction.measure(x))


def value(work):
    (statistic,) = work.statistics.values()
    return work.asked.quantity.compute(statistic.finished()).item()


def test_a_value_is_that_of_the_rows_of_all_ranks():
    given, x = Given({"0": ["InputSndNorm"]}), torch.randn(6, 3)
    (work,) = given.works([{("train", 0, 0): given.offer(part)} for part in x.chunk(3)])
    assert work.series == ("0", "InputSndNorm")
    assert value(work) == pytest.approx(x.double().norm().item(), rel=1e-6)


def test_calls_that_any_rank_has_made_are_there_training_first():
    given = Given({"0": ["InputSndNorm"]})
    x = given.offer(torch.ones(1, 3))
    works = given.works([{("eval", 0, 0): x, ("train", 0, 1): x}, {("train", 0, 0): x}, {}])
    found = [(work.mode, work.call, work.series[0]) for work in works]
    assert found == [("train", 0, "0"), ("train", 1, "0@1"), ("eval", 0, "0")]


@pytest.mark.parametrize("bringing", [(0, 1, 2), (0, 2)])
def test_gradients_are_those_of_the_mean_of_the_losses_of_ranks_that_bring_rows(bringing):
    given = Given({"0": ["OutputGradSndNorm"]}, scale=Scale(0.5, 1.0), bringing=bringing)
    g = torch.randn(4, 3)
    offers = [{("train", 0, 0): given.offer(part)} for part in g.chunk(2)]
    (work,) = given.works([*offers, {}])
    expected = g.double().norm().item() * 0.5 / len(bringing)
    assert value(work) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("failing", "text"),
    [([1], "could not be read on rank 6,"), ([1, 2], "could not be read on the ranks [6, 9],")],
)
def test_a_reading_that_failed_elsewhere_is_told_by_its_rank(failing, text):
    given, failures = Given({"0": ["InputSndNorm"]}), {}
    well = given.offer(torch.ones(1, 3))
    offers = [Offer(None) if place in failing else well for place in range(3)]
    assert given.works([{("train", 0, 0): offer} for offer in offers], failures) == []
    assert text in failures["0", "InputSndNorm"]


def test_what_this_rank_lacks_is_no_failure_where_another_has_it():
    given, failures = Given({"0": ["InputSndNorm"]}), {("0", "InputSndNorm"): "not called here"}
    works = given.works([{}, {("train", 0, 0): given.offer(torch.ones(1, 3))}, {}], failures)
    assert len(works) == 1
    assert failures == {}


def test_what_no_rank_has_keeps_the_reason_of_this_one():
    given, failures = Given({"0": ["InputSndNorm"]}), {("0", "InputSndNorm"): "not called here"}
    assert given.works([{}, {}, {}], failures) == []
    assert failures == {("0", "InputSndNorm"): "not called here"}
    unsaid = {}
    given.works([{}, {}, {}], unsaid)
    assert unsaid == {("0", "InputSndNorm"): "the module was not called"}


def test_parameters_that_each_rank_has_whole_are_read_here_alone():
    given = Given({"0": ["WeightNorm"]})
    modules = dict(given.model.named_modules())
    for readings in parameter_readings(given.numbers, modules):
        given.statistics.parameters.measure(readings)
    (work,) = given.works([{}, {}, {}])
    assert value(work) == pytest.approx(given.model[0].weight.double().norm().item(), rel=1e-6)
