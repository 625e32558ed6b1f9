"""Views that exchange two sizes."""

import pytest
import torch
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.views import torn_inputs, torn_views

TORN = {
    "rows and features": ((12, 5), lambda x: x.view(5, 12)),
    "a reshape of what is no view": ((12, 5), lambda x: x.flip(0).reshape(5, 12).mT),
    "images": ((12, 5, 4, 4), lambda x: x.view(5, 12, 4, 4)),
    "heads": ((3, 10, 8), lambda x: x.view(3, 4, 10, 2)),
    "heads put together": ((3, 4, 32, 8), lambda x: x.reshape(3, 32, 32)),
    "states of layers": ((2, 12, 5), lambda x: x.view(12, 10)),
    "logits as wide as several samples": ((3, 4, 16), lambda x: x.view(3, 16, 4).log_softmax(1)),
    "channels of a convolution": (
        (3, 4, 16),
        lambda x: torch.conv1d(x.view(3, 16, 4), torch.ones(2, 16, 3)),
    ),
    "heads of one sample": ((1, 10, 8), lambda x: x.view(1, 4, 10, 2)),
}
SOUND = {
    "flattened": ((12, 5), lambda x: x.view(60)),
    "split": ((12, 6), lambda x: x.view(12, 2, 3)),
    "joined and split": ((12, 5, 6), lambda x: x.view(60, 2, 3)),
    "heads": ((3, 10, 8), lambda x: x.view(3, 10, 4, 2).transpose(1, 2)),
    "transposed": ((12, 5), lambda x: x.t().reshape(5, 12)),
    "frames that are stacked": ((3, 10, 4), lambda x: x.view(6, 20)),
    "one layer's states": ((1, 12, 5), lambda x: x.view(12, -1)),
    "a square": ((6, 6), lambda x: x.view(6, 6)),
    "windows": ((3, 10, 4), lambda x: x.view(3, 5, 2, 4)),
    "shifted positions": ((2, 3, 10, 11), lambda x: x.view(2, 3, 11, 10)),
    "heads that join the samples": ((7, 4, 16), lambda x: x.view(7, 16, 4)),
    "one query's heads that join the samples": ((1, 4, 16), lambda x: x.view(1, 16, 4)),
    "positions whose first entries were cut off": ((2, 8, 5), lambda x: x[:, 1:].reshape(2, 5, 7)),
    "frames of channels": (
        (3, 4, 16),
        lambda x: torch.conv1d(
            torch.conv1d(x, torch.ones(4, 4, 1)).relu().view(3, 16, 4), torch.ones(2, 16, 3)
        ),
    ),
    "shifted positions of a memory": ((2, 3, 5, 10), lambda x: x.view(2, 3, 10, 5)[:, :, 1:]),
}


def torn(case):
    shape, view = case
    return [*torn_views(Uses.of((view(torch.ones(shape, requires_grad=True) * 2) * 2).sum()))]


@pytest.mark.parametrize("case", TORN.values(), ids=TORN)
def test_exchanged_sizes_are_found_with_both_shapes(case):
    ((_, given, made),) = torn(case)
    assert given == case[0]
    assert len(made) >= 2


def test_a_parameter_may_be_kept_in_any_order():
    bias = torch.nn.Parameter(torch.ones(12, 5))
    assert [*torn_views(Uses.of((bias.view(5, 12) * 2).sum()))] == []


@pytest.mark.parametrize("batch_first", [True, False])
def test_attention_of_torch_whose_heads_are_as_wide_as_the_batch_is_sound(batch_first):
    attention = torch.nn.MultiheadAttention(32, 8, batch_first=batch_first)
    x = torch.ones((4, 6, 32) if batch_first else (6, 4, 32))
    assert [*torn_views(Uses.of(attention(x, x, x)[0].sum()))] == []


@pytest.mark.parametrize("case", SOUND.values(), ids=SOUND)
def test_axes_that_are_split_and_joined_are_none(case):
    assert torn(case) == []


IMAGES, WAVES = (8, 12, 12, 3), (8, 6, 20)
TAKEN_TORN = {
    "images": (IMAGES, lambda x: x.reshape(8, 3, 12, 12), nn.Conv2d(3, 4, 3)),
    "images of a data set": (
        (99, *IMAGES[1:]),
        lambda x: x[7:15].view(8, 3, 12, 12),
        nn.Conv2d(3, 4, 3),
    ),
    "waves": (WAVES, lambda x: x.view(8, 20, 6), nn.Conv1d(20, 4, 3)),
    "waves of a linear layer": (WAVES, lambda x: x.view(8, 20, 6), nn.Linear(6, 4)),
    "waves of a norm": (WAVES, lambda x: x.view(8, 20, 6), nn.LayerNorm(6)),
    "waves of a norm of batches": (WAVES, lambda x: x.view(8, 20, 6), nn.BatchNorm1d(20)),
    "samples and steps": (WAVES, lambda x: x.view(6, 8, 20), nn.LayerNorm(20)),
}
TAKEN_WHOLE = {
    "images": (IMAGES, lambda x: x.permute(0, 3, 1, 2), nn.Conv2d(3, 4, 3)),
    "images with their memory in order": (
        IMAGES,
        lambda x: x.permute(0, 3, 1, 2).contiguous(),
        nn.Conv2d(3, 4, 3),
    ),
    "images of a data set": ((99, 3, 12, 12), lambda x: x[7:15], nn.Conv2d(3, 4, 3)),
    "images whose memory is in another order": (
        IMAGES,
        lambda x: x.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1).exp().permute(0, 3, 1, 2),
        nn.Conv2d(3, 4, 3),
    ),
    "one sample of a data set": ((99, 6, 20), lambda x: x[3].view(1, 6, 20), nn.Conv1d(6, 4, 3)),
    "flat images": ((8, 432), lambda x: x.view(8, 3, 12, 12), nn.Conv2d(3, 4, 3)),
    "patches": (WAVES, lambda x: x.view(8, 30, 4), nn.Linear(4, 2)),
    "waves": (WAVES, lambda x: x.view(-1, 20), nn.Linear(20, 4)),
    "flat waves": (WAVES, lambda x: x.flatten(1), nn.Linear(120, 4)),
    "one channel": ((8, 1, 20), lambda x: x.view(8, 20, 1), nn.Linear(1, 4)),
    "what was given": (IMAGES, lambda x: x, nn.Conv2d(12, 4, 3)),
}


def taken(case):
    shape, view, layer = case
    return [*torn_inputs(Uses.of(layer(view(torch.ones(shape))).sum()))]


@pytest.mark.parametrize("case", TAKEN_TORN.values(), ids=TAKEN_TORN)
def test_inputs_in_another_order_of_their_sizes_are_found(case):
    ((_, given, made),) = taken(case)
    assert given == (8, *case[0][1:])
    assert len(made) >= 2


@pytest.mark.parametrize("case", TAKEN_WHOLE.values(), ids=TAKEN_WHOLE)
def test_other_inputs_are_whole(case):
    assert taken(case) == []


def test_after_a_backward_no_input_is_known():
    layer = nn.Conv2d(3, 4, 3)
    loss = layer(torch.ones(IMAGES).view(8, 3, 12, 12)).sum()
    loss.backward()
    assert [*torn_inputs(Uses.of(loss))] == []
