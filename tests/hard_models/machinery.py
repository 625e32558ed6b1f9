"""torch's own machinery."""

from __future__ import annotations

import torch
from torch import fx, nn
from torch.nn.utils import parametrizations, parametrize

from tests.hard_models.case import (
    D,
    Noisy,
    TwoLayers,
    block,
    case,
    images,
    linear,
    quietly,
)


@case("parameter lists and dictionaries")
class ParameterContainers(nn.Module):
    def __init__(self):
        super().__init__()
        self.listed = nn.ParameterList([nn.Parameter(torch.randn(D, D)) for _ in range(2)])
        self.named = nn.ParameterDict({"scale": nn.Parameter(torch.ones(D))})
        self.fc = linear()

    def forward(self, x):
        for weight in self.listed:
            x = x @ weight
        return self.fc(x) * self.named["scale"]


@case("weight_norm as a parametrization")
class WeightNorm(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = parametrizations.weight_norm(self.first)


@case("weight_norm as a hook")
class OldWeightNorm(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = quietly(nn.utils.weight_norm, self.first)


@case("spectral_norm as a parametrization")
class SpectralNorm(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = parametrizations.spectral_norm(self.first)


@case("spectral_norm as a hook")
class OldSpectralNorm(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = quietly(nn.utils.spectral_norm, self.first)


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).t()


@case("a parametrization of one's own")
class Parametrized(TwoLayers):
    def __init__(self):
        super().__init__()
        parametrize.register_parametrization(self.first, "weight", Symmetric())


class Shaken(nn.Module):
    def __init__(self):
        super().__init__()
        self.draws = 0

    def forward(self, x):
        self.draws += 1
        return x + 0.1 * torch.randn_like(x)


@case("a parametrization that draws random numbers")
class Random(TwoLayers):
    def __init__(self):
        super().__init__()
        parametrize.register_parametrization(self.first, "weight", Shaken())


@case("a property that draws random numbers")
class RandomProperty(TwoLayers):
    draws = 0

    @property
    def weight(self):
        self.draws += 1
        return self.first.weight + 0.1 * torch.randn(D, D)

    def forward(self, x):
        return super().forward(x) @ self.weight


@case("lazy layers before their first forward", images)
class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.LazyConv2d(3, 3), nn.LazyBatchNorm2d()
        self.head = nn.LazyLinear(D)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).flatten(1))


@case("lazy layers after their first forward", images)
def materialised():
    model = Lazy()
    model(images(2)[0][0])
    return model


@case("a script module as a part")
class Scripted(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first = quietly(torch.jit.script, self.first)


class Compiled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.compile(Noisy(D, D), backend="eager"), linear()

    def forward(self, x):
        return self.last(self.first(x))


class CompiledInPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = Noisy(D, D), linear()
        self.first.compile(backend="eager")

    def forward(self, x):
        return self.last(self.first(x))


@case("a graph module")
def graph_module():
    return fx.symbolic_trace(nn.Sequential(block(), nn.Tanh()))


@case("a graph module as a part")
def graph_module_part():
    return nn.Sequential(fx.symbolic_trace(block()), nn.Tanh(), linear())


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 + 0 * x


@case("an autograd Function of one's own")
class OwnFunction(TwoLayers):
    def forward(self, x):
        return self.last(Double.apply(self.first(x)))


@case("vmap inside the forward")
class VmapInside(TwoLayers):
    def forward(self, x):
        return torch.vmap(lambda row: torch.tanh(row) * row.sum())(self.first(x)) + self.last(x)


@case("a gradient inside the forward")
class GradientInside(TwoLayers):
    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.last(torch.tanh(self.first(x))).square().sum()
            (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return force
