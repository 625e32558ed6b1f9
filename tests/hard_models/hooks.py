"""Hooks of the user's."""

from __future__ import annotations

from torch import nn

from tests.hard_models.case import (
    TwoLayers,
    case,
    linear,
)


class Doubles:
    """Hooks, as a class of their own that can be copied."""

    @staticmethod
    def output(module, args, output):
        return output * 2

    @staticmethod
    def inputs(module, args):
        return (args[0] + 1,)

    @staticmethod
    def keywords(module, args, kwargs):
        return args, {**kwargs, "scale": 3.0}

    @staticmethod
    def gradient(module, grad_input, grad_output):
        return tuple(None if g is None else g * 2 for g in grad_input)


@case("a forward hook")
def with_forward_hook():
    model = TwoLayers()
    model.first.register_forward_hook(Doubles.output)
    return model


@case("a forward hook on the model itself")
def with_hook_on_root():
    model = TwoLayers()
    model.register_forward_hook(Doubles.output)
    return model


@case("a pre-hook that changes inputs")
def with_pre_hook():
    model = TwoLayers()
    model.last.register_forward_pre_hook(Doubles.inputs)
    model.register_forward_pre_hook(Doubles.inputs)
    return model


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = linear()

    def forward(self, x, scale=1.0):
        return self.fc(x) * scale


@case("a pre-hook that changes keywords")
def with_keyword_hook():
    model = nn.Sequential(linear(), Scaled())
    model[1].register_forward_pre_hook(Doubles.keywords, with_kwargs=True)
    return model


@case("a full backward hook")
def with_backward_hook():
    model = TwoLayers()
    model.last.register_full_backward_hook(Doubles.gradient)
    return model


@case("a hook on a parameter")
def with_parameter_hook():
    model = TwoLayers()
    model.first.weight.register_hook(lambda g: g * 2)
    return model
