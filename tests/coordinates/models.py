"""A perceptron in the standard parametrization, and in the maximal update one (arXiv 2203.03466).

The second is that of table 3 there, for Adam: hidden weights have a variance of one over their
inputs and a rate that falls with the width; the last layer begins with a variance of one over the
square of them, and has the same rate.
"""

import torch
from torch import nn

INPUTS, OUTPUTS, RATE, BASE = 16, 4, 1e-3, 32


def standard(width):
    model = perceptron(width)
    return model, torch.optim.Adam(model.parameters(), lr=RATE)


def maximal(width):
    model = perceptron(width)
    nn.init.normal_(model.hidden[0].weight, std=width**-0.5)
    nn.init.normal_(model.hidden[2].weight, std=width**-0.5)
    nn.init.normal_(model.last.weight, std=BASE**0.5 / width)
    wide = [model.hidden[0].weight, model.hidden[2].weight, model.last.weight]
    ids = {id(p) for p in wide}
    narrow = [p for p in model.parameters() if id(p) not in ids]
    groups = [{"params": wide, "lr": RATE * BASE / width}, {"params": narrow, "lr": RATE}]
    return model, torch.optim.Adam(groups)


class Readout(nn.Linear):
    """The last layer of the package mup 1.0: a multiplier, and a variance that does not fall."""

    def __init__(self, width, outputs):
        super().__init__(width, outputs)
        self.multiple = width / BASE
        with torch.no_grad():
            self.weight.mul_(self.multiple**0.5)  # `MuReadout._rescale_parameters`
            self.bias.mul_(self.multiple**0.5)

    def forward(self, x):
        return super().forward(x / self.multiple)  # `MuReadout.forward`


def published(width):
    """The maximal update parametrization as mup 1.0 has it: `MuReadout` and `MuAdam`.

    Weights with two sides that grow have a rate that falls with the width; biases of theirs keep
    the size of a base width (`rescale_linear_bias`).
    """
    model = perceptron(width)
    model.last = Readout(width, OUTPUTS)
    hidden = [model.hidden[0], model.hidden[2]]
    with torch.no_grad():
        for layer in hidden:
            layer.bias.mul_((width / BASE) ** 0.5)
    matrices = [layer.weight for layer in hidden]
    ids = {id(p) for p in matrices}
    vectors = [p for p in model.parameters() if id(p) not in ids]
    groups = [{"params": matrices, "lr": RATE * BASE / width}, {"params": vectors, "lr": RATE}]
    return model, torch.optim.Adam(groups)


def fading(width):
    """What the wide ones are trained with is by far too small."""
    model = perceptron(width)
    return model, torch.optim.Adam(model.parameters(), lr=RATE * (BASE / width) ** 3)


def perceptron(width):
    model = nn.Module()
    model.first = nn.Linear(INPUTS, width)
    model.hidden = nn.Sequential(
        nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
    )
    model.last = nn.Linear(width, OUTPUTS)
    kind = type("Perceptron", (nn.Module,), {"forward": forward})
    model.__class__ = kind
    return model


def forward(self, x):
    return self.last(self.hidden(torch.tanh(self.first(x))))


def batch():
    return torch.randn(64, INPUTS, generator=torch.Generator().manual_seed(0))
