"""Values on their way to the host become numbers and records, and what cannot go is named."""

import pytest
import torch

from taiyi_fx.records.record import Block, Record
from taiyi_fx.step.transfer import Column, Outcome, Transfer, parts_of
from tests.step.given import arrived, column

OF = (("fc", "Norm"), ("fc@1", "Norm"))


def test_a_part_of_a_value_has_its_name_behind_the_quantity_s():
    assert parts_of(OF, "N") == (("fc", "Norm.N"), ("fc@1", "Norm.N"))
    assert parts_of(OF, "N") is parts_of(OF, "N")
    assert parts_of(OF, "") is OF


def test_a_vector_holds_a_number_of_each_series():
    sent = Column(3, "eval", OF, parts_of(OF, "N"), torch.tensor([1.5, 2.5]))
    outcome = arrived(sent).outcome()
    assert outcome.blocks == [(OF, Block(3, "eval", parts_of(OF, "N"), [1.5, 2.5]))]
    assert outcome.records == []


@pytest.mark.parametrize(
    ("values", "numbers"),
    [(torch.tensor([True, False]), [1, 0]), (torch.tensor([2**62, 1]), [2**62, 1])],
)
def test_counts_stay_whole(values, numbers):
    ((_, block),) = arrived(Column(0, "train", OF, OF, values)).outcome().blocks
    assert block.values == numbers
    assert all(type(number) is int for number in block.values)


def test_a_tensor_of_each_series_is_a_record_of_its_own():
    values = torch.randn(2, 3)
    sent = Column(1, "train", OF, parts_of(OF, "All"), values)
    outcome = arrived(sent).outcome()
    assert [series for series, _ in outcome.records] == list(OF)
    (_, first), (_, second) = outcome.records
    assert (first.step, first.module, first.quantity) == (1, "fc", "Norm.All")
    assert torch.equal(torch.stack([first.value, second.value]), values)
    assert first.value.untyped_storage().nbytes() == first.value.nbytes  # not all of the column


def test_complex_numbers_are_tensors():
    values = torch.tensor([1 + 2j, 3 - 4j])
    outcome = arrived(Column(0, "train", OF, OF, values)).outcome()
    assert [record.value.item() for _, record in outcome.records] == [1 + 2j, 3 - 4j]
    assert isinstance(outcome.records[0][1], Record)


def test_an_outcome_is_made_once():
    transfer = arrived(column(a=1.0))
    first = transfer.outcome()
    assert transfer.outcome() is first
    assert len(first.blocks) == 1


def test_what_cannot_go_is_named_and_the_others_arrive():
    lost = Column(0, "train", OF, OF, torch.ones(2, device="meta"))
    transfer = arrived(lost, column(a=1.0), failures={("x", "y"): "before"})
    failures = transfer.pop_errors()
    assert failures.keys() == {("x", "y"), *OF}
    assert failures[OF[0]].startswith("NotImplementedError on the way to the host: ")
    outcome = transfer.outcome()
    assert [block.values for _, block in outcome.blocks] == [[1.0]]
    assert outcome.failures == {}


def test_what_cannot_go_raises_if_strict():
    lost = Column(0, "train", OF, OF, torch.ones(2, device="meta"))
    with pytest.raises(NotImplementedError):
        Transfer(Outcome(), [lost], strict=True)


def test_values_of_the_host_are_there_at_once():
    assert arrived(column(a=1.0)).is_there
