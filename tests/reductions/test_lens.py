"""Rows that pass a model's own norm and head."""

import pytest
import torch
from torch import nn

from taiyi_fx.reductions import Lens


def modules(**parts):
    return dict(nn.ModuleDict(parts).named_modules())


def test_rows_are_evenly_spread_and_all_of_few():
    x = torch.arange(20.0).reshape(2, 5, 2)
    (rows,) = Lens(positions=4).measure(x)
    assert rows[:, 0].tolist() == [0.0, 4.0, 10.0, 14.0]  # rows 0, 2, 5 and 7 of ten
    (rows,) = Lens(positions=10).measure(x)
    assert torch.equal(rows, x.reshape(10, 2))
    assert rows.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_the_norm_and_the_head_nearest_to_the_model_itself_are_found():
    block = nn.ModuleDict({"norm": nn.LayerNorm(2), "head": nn.Linear(2, 2)})
    found = modules(h=block, norm=nn.LayerNorm(2), lm_head=nn.Linear(2, 3))
    norm, head = Lens().of_model(found).modules
    assert (norm, head) == (found["norm"], found["lm_head"])
    inside = {"model": nn.ModuleDict({"norm": nn.LayerNorm(2)}), "lm_head": nn.Linear(2, 3)}
    assert Lens().of_model(modules(**inside)).modules[0] is inside["model"]["norm"]
    assert Lens(norm="").of_model(found).modules == (None, found["lm_head"])


def test_modules_in_a_list_are_a_blocks_own():
    block = nn.ModuleDict({"norm": nn.LayerNorm(4), "output": nn.Linear(4, 4)})
    model = nn.ModuleDict({"layers": nn.ModuleList([block])})
    with pytest.raises(LookupError, match="has no head that is known by its name"):
        Lens().of_model(dict(model.named_modules()))
    model["lm_head"] = nn.Linear(4, 9)
    assert Lens().of_model(dict(model.named_modules())).modules == (None, model["lm_head"])


def test_finished_it_is_the_softmax_of_the_heads_logits():
    head = nn.Linear(2, 3)
    value = Lens(norm="").of_model(modules(head=head)).finish((torch.ones(4, 2),))
    shares = head(torch.ones(2)).double().softmax(-1)
    assert value.entropy.tolist() == pytest.approx([-(shares * shares.log()).sum().item()] * 4)
    assert value.top.tolist() == [shares.argmax().item()] * 4


def test_a_nan_stays_one():
    head = nn.Linear(2, 3)
    lens = Lens(norm="").of_model(modules(head=head))
    assert lens.finish((torch.full((1, 2), torch.nan),)).entropy.isnan().all()


def test_rows_of_parts_are_joined():
    lens = Lens(positions=2)
    a, b = torch.zeros(3, 2), torch.ones(3, 2)
    (rows,) = lens.merge(lens.measure(a), lens.measure(b))
    assert rows[:, 0].tolist() == [0, 0, 1, 1]


def test_one_position_at_least():
    with pytest.raises(ValueError, match="positions must be a number of at least 1, not 0"):
        Lens(positions=0)


def test_a_head_that_changes_as_it_is_called_is_refused():
    head = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 3))
    with pytest.raises(ValueError, match="has a BatchNorm1d in its norm or head, which changes"):
        Lens(norm="").of_model(modules(head=head))


@pytest.mark.parametrize("head", [nn.Linear(3, 9), nn.Embedding(9, 4), nn.Bilinear(4, 4, 2)])
def test_a_head_that_does_not_take_the_blocks_output_is_told_with_what_to_do(head):
    lens = Lens().of_model({"norm": nn.LayerNorm(4), "head": head})
    kind = type(head).__name__
    with pytest.raises(ValueError, match=f"4 features does not pass {kind} as its head and Layer"):
        lens.finish(lens.measure(torch.ones(2, 4)))
