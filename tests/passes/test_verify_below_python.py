"""Verification says nothing about what a symbolic trace cannot know."""

import warnings

from torch import nn

import taiyi_fx
from taiyi_fx.testing.blocks import Branch, Chain


def test_modules_below_a_forward_that_stayed_python_are_not_called_missing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = taiyi_fx.instrument(Chain(Branch()), {nn.Linear: ["InputSndNorm"]})
    assert list(model.capture.python) == ["", "first", "first.0"]
