"""Families of modules by their class names."""

import pytest
from torch import nn

from taiyi_fx.outline.families import family_of


@pytest.mark.parametrize(
    ("class_", "family"),
    [
        (nn.Conv1d, "convolution"),
        (nn.Conv2d, "convolution"),
        (nn.MultiheadAttention, "attention"),
        (nn.BatchNorm1d, "norm"),
        (nn.AdaptiveAvgPool2d, "pooling"),
        (nn.LSTMCell, "recurrent"),
        (nn.LeakyReLU, "activation"),
        (nn.CrossEntropyLoss, "loss"),
        (nn.Flatten, ""),
    ],
)
def test_a_class_of_torch_has_its_family(class_, family):
    assert family_of(class_.__name__) == family


def test_the_linear_layer_of_gpt2_is_none_of_the_convolutions():
    assert family_of("Conv1D") == "linear"


def test_of_two_families_the_first_is_taken():
    assert family_of("LinearAttention") == "attention"
