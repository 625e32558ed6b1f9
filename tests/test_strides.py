"""Values lie in memory as the plain model's do: what comes later may act upon it."""

import copy

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import edit


@taiyi_fx.quantity("norm_of_input_gradient_by_strides", norm=taiyi_fx.input_grad.norm)
def norm_of_input_gradient(norm):
    return norm


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Identity(), nn.Conv2d(1, 2, 3))

    def forward(self, x):
        return self.layers(x)


class Parts(nn.Module):
    """Hands tensors on that may be changed in place, and returns a view."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 2, 1)
        self.third = nn.Linear(8, 8)

    def forward(self, x):
        y = self.first(x)
        y.mul_(2)
        z = self.second(y)
        return z, y, self.third(z).transpose(1, 2)


class Crop(nn.Module):
    def forward(self, x):
        return x[:, :1]


class Cropped(nn.Module):
    """Returns a tensor with gaps in its memory, and an axis of size 1."""

    def __init__(self):
        super().__init__()
        self.first, self.crop, self.last = nn.Conv2d(1, 2, 1), Crop(), nn.Conv2d(1, 2, 3)

    def forward(self, x):
        y = self.crop(self.first(x))
        return self.last(y), y


class Expanded(nn.Module):
    """Edits and reads a tensor whose elements share memory."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 2, 1)

    def forward(self, x):
        y = self.first(x)
        return self.last(y[:1].expand(4, -1, -1, -1)), self.last(y[:, :, :1].expand(-1, -1, 8, -1))


def one_channel():
    """A batch of which the stride of the channels is one, not that of an image."""
    batch = torch.linspace(-1, 1, 4 * 64).reshape(4, 8, 8, 1).permute(0, 3, 1, 2)
    return batch.requires_grad_()


def strides(made):
    return [y.stride() for y in (made if isinstance(made, tuple) else (made,))]


CONFIGURATIONS = {
    "input gradients": {nn.Conv2d: [norm_of_input_gradient]},
    "output gradients": {nn.Module: ["OutputGradSndNorm"]},
    "edits of inputs": {nn.Conv2d: [edit(grad=lambda g: g * 2, at="input")]},
    "edits of outputs": {nn.Conv2d: [edit(grad=lambda g: g * 2)]},
}
MODELS = {
    "layers": Layers,
    "parts": Parts,
    "cropped": Cropped,
    "expanded": Expanded,
}


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("cfg", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_strides_are_the_plain_models(build, cfg, is_compiled):
    plain = build()
    probed = taiyi_fx.instrument(copy.deepcopy(plain), cfg)
    for model in (plain, probed) if is_compiled else ():
        model.compile(backend="aot_eager", fullgraph=True)
    for _ in range(2):
        results = []
        for model in (plain, probed):
            x = one_channel()
            made = model(x)
            sum(y.sum() for y in (made if isinstance(made, tuple) else (made,))).backward()
            results.append([*strides(made), x.grad.stride()])
        assert results[0] == results[1]
