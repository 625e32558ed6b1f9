"""Quantities of work: in batches or alone, over windows and previous steps, and why there is none."""

import math

import pytest
import torch

import taiyi_fx
from taiyi_fx.quantities.declare import Defined
from taiyi_fx.step.evaluate import Evaluator, Finished, columns_of_many, group_of
from taiyi_fx.step.work import Statistic, Work
from tests.step.given import Given


def works(quantity, *tensors, is_emitted=True, cfg=None):
    """Work of one quantity at one layer: a call for each tensor, as if it had been read there."""
    (asked,) = (cfg or Given({"0": [quantity]})).subscriptions
    return [
        Work.at(asked, "train", call, is_emitted=is_emitted)._replace(
            statistics={
                name: Statistic(reading, reading.reduction.measure(x), 1.0)
                for name, reading in asked.readings.items()
            }
        )
        for call, x in enumerate(tensors)
    ]


def numbers(outcome):
    """The numbers of an outcome, by module and quantity."""
    return {
        series: value
        for _, block in outcome.blocks
        for series, value in zip(block.series, block.values, strict=True)
    }


def counting(name, **options):
    """A norm of outputs, and the shapes that its function was called with."""
    shapes = []

    @taiyi_fx.quantity(name, norm=taiyi_fx.output.norm, **options)
    def counted(norm):
        shapes.append(tuple(norm.shape))
        return norm

    return counted, shapes


def test_a_batched_quantity_of_many_calls_is_called_once():
    quantity, shapes = counting("many", batched=True)
    xs = torch.randn(5, 4, 3)
    found = numbers(Evaluator(strict=True).run(0, works(quantity, *xs)))
    assert shapes == [(5,)]
    names = ["0", "0@1", "0@2", "0@3", "0@4"]
    expected = xs.double().flatten(1).norm(dim=1).tolist()
    assert found == pytest.approx(dict(zip([(n, "many") for n in names], expected, strict=True)))


def test_a_quantity_that_is_not_batched_is_called_for_each():
    quantity, shapes = counting("each")
    Evaluator(strict=True).run(0, works(quantity, *torch.randn(3, 4, 3)))
    assert shapes == [(), (), ()]


def test_what_can_be_computed_together_is_batched_emitted_and_equal_in_options_and_readings():
    batched, _ = counting("of_many", batched=True)
    alone, _ = counting("of_one")
    x = torch.ones(2, 3)
    first, second = works(batched, x, x)
    assert group_of(first) == group_of(second) is not None
    assert group_of(first._replace(mode="eval")) != group_of(second)
    assert group_of(first._replace(is_emitted=False)) is None
    assert group_of(works(alone, x)[0]) is None


@pytest.mark.parametrize(
    "computed",
    [torch.ones(()), torch.ones(3), torch.ones(2, 1), torch.ones(2, dtype=torch.complex64)],
    ids=["one number", "one too many", "an axis too many", "complex"],
)
def test_what_is_not_one_real_number_for_each_work_is_no_column(computed):
    quantity, _ = counting("shaped", batched=True)
    two = works(quantity, *torch.ones(2, 2, 3))
    assert columns_of_many(computed, 0, two, tuple(w.series for w in two)) is None


def test_parts_of_a_value_are_columns_of_their_own():
    quantity, _ = counting("parted", batched=True)
    two = works(quantity, *torch.ones(2, 2, 3))
    series = tuple(w.series for w in two)
    parts = {"": torch.tensor([1.0, 2.0]), "N": torch.tensor([3, 4])}
    whole, n = columns_of_many(parts, 7, two, series)
    assert (whole.step, whole.of, whole.series) == (7, series, series)
    assert n.of == series
    assert n.series == (("0", "parted.N"), ("0@1", "parted.N"))


def test_equal_readings_of_one_state_are_finished_once():
    quantity, _ = counting("shared")
    (work,) = works(quantity, torch.randn(4, 3))
    (statistic,) = work.statistics.values()
    finished = Finished()
    value = finished.of([statistic])
    assert finished.of([statistic._replace()]) is value
    assert finished.of([statistic._replace(factor=2.0)]).item() == pytest.approx(2 * value.item())


def test_a_reason_for_no_value_is_no_failure():
    @taiyi_fx.quantity("reasoned", norm=taiyi_fx.output.norm)
    def reasoned(norm):
        raise taiyi_fx.NoValue("not yet")

    outcome = Evaluator(strict=True).run(0, works(reasoned, torch.ones(2, 3)))
    assert outcome.reasons == {("0", "reasoned"): "not yet"}
    assert (outcome.failures, outcome.blocks) == ({}, [])


@pytest.mark.parametrize("batched", [True, False])
def test_a_call_that_has_no_value_by_the_data_has_a_reason_and_no_record(batched):
    @taiyi_fx.quantity("partial", batched=batched, norm=taiyi_fx.output.norm)
    def partial(norm):
        return {"": Defined(norm, norm != 0, "zeros"), "double": 2 * norm}

    three = works(partial, torch.zeros(2, 2), torch.ones(2, 2), torch.full((2, 2), math.nan))
    outcome = Evaluator(strict=True).run(0, three)
    assert outcome.reasons == {("0", "partial"): "zeros"}
    assert outcome.failures == {}
    found = {series: value for series, value in numbers(outcome).items() if series[1] == "partial"}
    assert found == pytest.approx(
        {("0@1", "partial"): 2, ("0@2", "partial"): math.nan}, nan_ok=True
    )
    assert ("0", "partial.double") in numbers(outcome)


def test_a_quantity_that_fails_is_named_and_the_others_are_computed():
    @taiyi_fx.quantity("fragile", norm=taiyi_fx.output.norm)
    def fragile(norm):
        if norm > 10:
            raise ValueError("too large")
        return norm

    outcome = Evaluator(strict=False).run(0, works(fragile, torch.ones(4), torch.ones(400)))
    assert outcome.failures == {("0@1", "fragile"): "ValueError: too large"}
    assert numbers(outcome) == {("0", "fragile"): 2.0}


def test_a_failure_raises_with_the_name_if_strict():
    @taiyi_fx.quantity("hopeless", norm=taiyi_fx.output.norm)
    def hopeless(norm):
        raise ValueError("too large")

    with pytest.raises(ValueError, match="too large") as caught:
        Evaluator(strict=True).run(0, works(hopeless, torch.ones(4)))
    assert "while computing hopeless of '0'" in caught.value.__notes__


@pytest.fixture
def change():
    @taiyi_fx.quantity(
        "moved", now=taiyi_fx.output.norm, before=taiyi_fx.previous(taiyi_fx.output.norm)
    )
    def moved(now, before):
        return now if before is None else now - before

    return Given({"0": [moved]})


def test_a_previous_value_is_that_of_the_last_due_step_of_the_same_call(change):
    evaluator = Evaluator(strict=True)
    found = [
        numbers(evaluator.run(step, works("moved", *xs, cfg=change)))
        for step, xs in enumerate([(torch.ones(1), torch.ones(4)), (torch.ones(9), torch.ones(16))])
    ]
    assert found[0] == {("0", "moved"): 1.0, ("0@1", "moved"): 2.0}
    assert found[1] == {("0", "moved"): 2.0, ("0@1", "moved"): 2.0}


def test_a_step_without_a_reading_breaks_the_chain_of_previous_values(change):
    evaluator = Evaluator(strict=True)
    (work,) = works("moved", torch.ones(4), cfg=change)
    evaluator.run(0, [work])
    assert numbers(evaluator.run(1, [work._replace(statistics=None)])) == {}
    assert numbers(evaluator.run(2, [work])) == {("0", "moved"): 2.0}


def test_earlier_steps_are_forgotten_when_cleared(change):
    evaluator = Evaluator(strict=True)
    (work,) = works("moved", torch.ones(4), cfg=change)
    evaluator.run(0, [work])
    evaluator.clear()
    assert numbers(evaluator.run(1, [work])) == {("0", "moved"): 2.0}


def test_a_window_is_of_the_steps_since_it_was_emitted_last():
    @taiyi_fx.quantity("summed", window=True, norm=taiyi_fx.output.norm)
    def summed(norm):
        return norm.sum()

    given, evaluator = Given({"0": [summed]}), Evaluator(strict=True)
    found = []
    for step in range(6):
        x, is_emitted = torch.ones((step + 1) ** 2), step in (1, 4)
        made = works(summed, x, is_emitted=is_emitted, cfg=given)
        found.append(list(numbers(evaluator.run(step, made)).values()))
    assert found == [[], [1 + 2], [], [], [3 + 4 + 5], []]


def test_sparse_values_become_dense():
    @taiyi_fx.quantity("thin", norm=taiyi_fx.output.norm)
    def thin(norm):
        return torch.tensor([0.0, 3.0]).to_sparse()

    outcome = Evaluator(strict=True).run(0, works(thin, torch.ones(2)))
    ((_, record),) = outcome.records
    assert record.value.layout == torch.strided
    assert record.value.tolist() == [0, 3]
