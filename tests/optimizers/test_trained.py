"""What descriptions are given is wide, and cut into pieces where it is large."""

import pytest
import torch
from torch import nn

from taiyi_fx.optimizers import trained
from taiyi_fx.optimizers.trained import NoGradient, TrainedParameter, in_pieces


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_are_wide_and_of_the_true_loss(dtype):
    p = nn.Parameter(torch.ones(3, dtype=dtype))
    p.grad = torch.full_like(p, 4)
    state = {"m": torch.ones(3, dtype=dtype), "step": 7, "none": None}
    of = TrainedParameter(p, p.grad, state, {"lr": 0.1}, 0.25)
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    assert [x.dtype for x in (of.parameter, of.gradient, of.state["m"])] == [wide] * 3
    assert of.dtype is dtype
    assert of.gradient.tolist() == [1, 1, 1]
    assert not of.parameter.requires_grad
    assert of.state["step"] == 7
    assert list(of.state) == [*state]
    assert len(of.state) == 3
    with pytest.raises(KeyError):
        of.state["none"]
    with pytest.raises(NoGradient):
        _ = TrainedParameter(p, None, state, {}).gradient


def test_a_complex_number_is_two_real_ones_and_a_sparse_gradient_is_dense():
    p = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    assert TrainedParameter(p, None, {}, {}).parameter.shape == (2, 2)
    embedding = nn.Embedding(3, 2, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    of = TrainedParameter(embedding.weight, embedding.weight.grad, {}, {})
    assert of.gradient.tolist() == [[0, 0], [1, 1], [0, 0]]


def large(monkeypatch, **state):
    monkeypatch.setattr(trained, "_ON_HOST", 5)
    p = torch.arange(12.0).reshape(3, 4).bfloat16()
    kept = {"m": p + 100, "row": torch.ones(3, 1), "step": torch.tensor(7.0), **state}
    return p, TrainedParameter(p, p + 50, kept, {"lr": 0.1}, 2.0)


def test_a_large_parameter_is_cut_with_what_is_of_its_elements(monkeypatch):
    p, whole = large(monkeypatch)
    pieces = list(in_pieces(whole))
    assert [len(x) for x, _ in pieces] == [5, 5, 2]
    assert torch.equal(torch.cat([x for x, _ in pieces]), p.reshape(-1))
    assert {x.dtype for x, _ in pieces} == {torch.bfloat16}
    for name, expected in (("parameter", p), ("gradient", 2 * (p + 50))):
        found = torch.cat([getattr(of, name) for _, of in pieces])
        assert torch.equal(found, expected.float().reshape(-1))
    assert torch.equal(torch.cat([of.state["m"] for _, of in pieces]), whole.state["m"].view(-1))
    for _, of in pieces:
        assert of.state["row"].shape == (3, 1)
        assert of.state["step"] == 7
        assert (of.dtype, of.group) == (torch.bfloat16, {"lr": 0.1})


@pytest.mark.parametrize("kept", [torch.ones(4, 3).T, None], ids=["strided", "small"])
def test_what_cannot_or_need_not_be_cut_is_whole(monkeypatch, kept):
    _, whole = large(monkeypatch, **({} if kept is None else {"v": kept}))
    if kept is None:
        monkeypatch.setattr(trained, "_ON_HOST", 12)
    ((x, of),) = in_pieces(whole)
    assert of is whole
    assert x.shape == (3, 4)
