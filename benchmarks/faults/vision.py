"""Networks for images whose branches begin at nothing, or whose norms make scales meaningless.

Their healthy numbers differ from layer to layer: behind a gain of zero no gradient passes at the
first step, and tiny ones at the next; a gain between convolutions of single channels has none.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn


def convolution(
    inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    """A convolution before a norm, initialised by what it gives."""
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


class Residual(nn.Module):
    """Two convolutions beside a way round, whose last gain is zero at first.

    Args:
        inputs: Channels that come in.
        outputs: Channels that go out; if they are others, there are half as many rows.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        is_same = inputs == outputs
        self.conv1 = convolution(inputs, outputs, stride=1 if is_same else 2)
        self.bn1, self.act1 = nn.BatchNorm2d(outputs), nn.ReLU()
        self.conv2 = convolution(outputs, outputs)
        self.bn2, self.act2 = nn.BatchNorm2d(outputs), nn.ReLU()
        nn.init.zeros_(self.bn2.weight)
        self.downsample: nn.Module = nn.Identity()
        if not is_same:
            small = convolution(inputs, outputs, 1)
            self.downsample = nn.Sequential(nn.AvgPool2d(2), small, nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Images of other channels."""
        branch = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        return self.act2(branch + self.downsample(x))


class ResNet(nn.Module):
    """Four blocks whose branches begin at nothing, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(1, 8), nn.BatchNorm2d(8), nn.ReLU())
        widths = [8, 8, 16, 24, 24]
        self.layers = nn.Sequential(*(Residual(a, b) for a, b in pairwise(widths)))
        self.head = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 10)."""
        return self.head(self.layers(self.stem(x)).mean((2, 3)))


class Squeeze(nn.Module):
    """A weight for each channel, made of the means of all.

    Args:
        width: The number of channels.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduce, self.act = nn.Conv2d(width, width // 4, 1), nn.ReLU()
        self.expand, self.gate = nn.Conv2d(width // 4, width, 1), nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        """Images of the same shape."""
        return x * self.gate(self.expand(self.act(self.reduce(x.mean((2, 3), keepdim=True)))))


class Inverted(nn.Module):
    """A convolution to many channels, one of each by itself, and one back to few.

    Args:
        width: Channels that come in, and go out.
        act: Class of the activations.
    """

    def __init__(self, width: int, act: type[nn.Module]) -> None:
        super().__init__()
        many = 4 * width
        self.conv_pw, self.bn1, self.act1 = convolution(width, many, 1), _norm(many), act()
        self.conv_dw = convolution(many, many, groups=many)
        self.bn2, self.act2 = _norm(many), act()
        self.se: nn.Module = Squeeze(many) if act is nn.Hardswish else nn.Identity()
        self.conv_pwl, self.bn3 = convolution(many, width, 1), _norm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Images of the same shape."""
        alone = self.conv_dw(self.act1(self.bn1(self.conv_pw(x))))
        return x + self.bn3(self.conv_pwl(self.se(self.act2(self.bn2(alone)))))


class Mobile(nn.Module):
    """Six blocks of convolutions by channel, the later with squeezes, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(1, 8, stride=2), _norm(8), nn.Hardswish())
        acts = [nn.ReLU, *[nn.Hardswish] * 5]
        self.blocks = nn.Sequential(*(Inverted(8, act) for act in acts))
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 10)."""
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=1e-3)


class Normalized(nn.Sequential):
    """A linear layer and a batch norm over rows of tokens.

    Args:
        inputs: Features that come in.
        outputs: Features that go out.
        gain: Of the norm at first.
    """

    def __init__(self, inputs: int, outputs: int, gain: float = 1.0) -> None:
        super().__init__(nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs))
        nn.init.constant_(self.get_parameter("1.weight"), gain)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of (batch, tokens, features)."""
        linear, norm = self
        return norm(linear(x).flatten(0, 1)).unflatten(0, x.shape[:2])


class Biased(nn.Module):
    """Attention with batch norms and a bias for each distance, beside a way round.

    Args:
        width: Of its rows.
        tokens: How many there are.
    """

    def __init__(self, width: int, tokens: int) -> None:
        super().__init__()
        self.qkv = Normalized(width, 3 * width)
        self.proj, self.act = Normalized(width, width, gain=0.0), nn.Hardswish()
        self.biases = nn.Parameter(torch.zeros(4, tokens))
        place = torch.arange(tokens)
        self.register_buffer("distances", (place[:, None] - place).abs(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of the same shape."""
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        logits = q @ k.mT * q.shape[-1] ** -0.5 + self.biases[:, self.get_buffer("distances")]
        mixed = (logits.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return x + self.proj(self.act(mixed))


class Fed(nn.Module):
    """Two linear layers with norms, beside a way round.

    Args:
        width: Of its rows.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.act = Normalized(width, 2 * width), nn.Hardswish()
        self.down = Normalized(2 * width, width, gain=0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of the same shape."""
        return x + self.down(self.act(self.up(x)))


class LeViT(nn.Module):
    """Attention over the pixels that convolutions leave, whose branches begin at nothing."""

    def __init__(self) -> None:
        super().__init__()
        width = 32
        one = (convolution(1, 16), nn.BatchNorm2d(16), nn.Hardswish())
        two = (convolution(16, width, stride=2), nn.BatchNorm2d(width), nn.Hardswish())
        self.stem = nn.Sequential(*one, *two)
        self.blocks = nn.Sequential(
            *(part for _ in range(4) for part in (Biased(width, 16), Fed(width)))
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 10)."""
        return self.head(self.blocks(self.stem(x).flatten(2).mT).mean(1))
