"""Which layers' gradients are known sample by sample, and why others' are not."""

import pytest
from torch import nn

from taiyi_fx.quantities.layer_rules import weight_gradient_of
from taiyi_fx.reductions.weight_gradients import Convolution, Dense, Lookup, Normalization


@pytest.mark.parametrize(("module", "kind"), [
    (nn.Linear(2, 3), Dense), (nn.Conv2d(2, 2, 3), Convolution),
    (nn.ConvTranspose1d(2, 2, 3), Convolution), (nn.Embedding(5, 2), Lookup),
    (nn.LayerNorm(4), Normalization), (nn.RMSNorm(4), Normalization),
    (nn.GroupNorm(2, 4), Normalization), (nn.InstanceNorm1d(2, affine=True), Normalization),
])  # fmt: skip
def test_a_layer_has_its_rule(module, kind):
    assert type(weight_gradient_of(module)) is kind


class OfOnesOwn(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize(("module", "why"), [
    (OfOnesOwn(2, 2), "is not a layer whose gradient is known"),
    (nn.BatchNorm1d(2), "has no gradient sample by sample"),
    (nn.LayerNorm(2, elementwise_affine=False), "has no weight"),
    (nn.InstanceNorm1d(2, affine=True, track_running_stats=True), "has no gradient sample by sample"),
    (nn.Embedding(5, 2, scale_grad_by_freq=True), "frequency of words"),
    (nn.ReLU(), "has no weight"),
])  # fmt: skip
def test_any_other_says_why_it_has_none(module, why):
    found = weight_gradient_of(module)
    assert isinstance(found, str)
    assert why in found


def test_a_padded_row_and_reflected_padding_are_part_of_the_rule():
    assert weight_gradient_of(nn.Embedding(5, 2, padding_idx=1)) == Lookup(5, 1)
    rule = weight_gradient_of(nn.Conv1d(2, 2, 3, padding=1, padding_mode="reflect"))
    assert isinstance(rule, Convolution)
    assert (rule.padding, rule.padding_mode) == ((1, 1), "reflect")
