"""Tensors reach the host with their shapes, types and digits, by few copies from each device."""

import pytest
import torch

from taiyi_fx.step import host
from taiyi_fx.step.host import Copies

TENSORS = [
    torch.tensor(1.5),
    torch.arange(6, dtype=torch.int64).view(2, 3),
    torch.tensor([True, False]),
    torch.tensor([0.1, float("nan"), float("inf")], dtype=torch.float64),
    torch.tensor([2.5, -3.0], dtype=torch.bfloat16),
    torch.zeros(0, 4),
    torch.tensor([1 + 2j, 3 - 4j]),
    torch.tensor(2**53, dtype=torch.int64),
]


@pytest.fixture
def elsewhere(monkeypatch):
    """Takes the tensors of the CPU for those of another device."""
    monkeypatch.setattr(host, "_is_on_host", lambda x: False)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())


def test_tensors_of_the_host_are_not_copied():
    copies = Copies(TENSORS)
    assert copies.are_there
    assert all(found is given for found, given in zip(copies.tensors(), TENSORS, strict=True))


def test_tensors_of_another_device_come_as_they_were(elsewhere):
    found = Copies(TENSORS).tensors()
    assert all(map(same, found, TENSORS))


def test_one_copy_is_made_of_all_small_tensors_of_a_type(elsewhere, monkeypatch):
    joined = []
    cat = torch.cat
    monkeypatch.setattr(torch, "cat", lambda parts: joined.append(len(parts)) or cat(parts))
    Copies([*TENSORS, torch.ones(2**14), torch.ones(2**14 + 1)])
    assert joined == [3, 2, 1, 1, 1, 1]  # two float32 and the small one, two int64, ...


def test_complex_tensors_are_small_by_their_elements(elsewhere):
    tensors = [torch.randn(n, dtype=torch.complex64) for n in (9000, 9000, 2**14 + 1)]
    found = Copies(tensors).tensors()
    assert all(map(torch.equal, found, tensors))


def test_a_part_that_is_kept_keeps_no_other(elsewhere):
    first, _ = Copies([torch.ones(2), torch.ones(2**14)]).tensors()
    assert first.untyped_storage().nbytes() == 8


def test_what_is_sent_is_of_that_moment(elsewhere):
    x = torch.ones(3)
    copies = Copies([x])
    x.zero_()
    assert copies.tensors()[0].tolist() == [1, 1, 1]


def test_asked_again_the_same_tensors_come(elsewhere):
    copies = Copies(TENSORS)
    first = copies.tensors()
    assert copies.tensors() is first


def test_a_tensor_that_is_nowhere_cannot_be_sent():
    with pytest.raises(NotImplementedError, match="meta"):
        Copies([torch.ones(2, device="meta")])


def test_no_tensors_are_there_at_once():
    copies = Copies([])
    assert copies.are_there
    assert copies.tensors() == []
