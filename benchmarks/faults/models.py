"""The models that are trained: an MLP, a CNN, two GPTs, an LSTM and a GAN, all of them tiny.

Where a model is a chain of stages, `between` is called with the number of each stage and its
output: a place for a fault in a function, which no module holds.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Between = Callable[[int, Tensor], Tensor]


def unchanged(stage: int, x: Tensor) -> Tensor:
    """The output of a stage as it is."""
    return x


class Dense(nn.Module):
    """A linear layer and its activation.

    Args:
        inputs: Features that come in.
        outputs: Features that go out.
        activation: Its class.
    """

    def __init__(self, inputs: int, outputs: int, activation: type[nn.Module]) -> None:
        super().__init__()
        self.linear, self.act = nn.Linear(inputs, outputs), activation()
        self.drop = nn.Dropout(0.02)
        gain = "relu" if activation in (nn.ReLU, nn.GELU) else "tanh"
        nn.init.kaiming_normal_(self.linear.weight, nonlinearity=gain)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of (batch, inputs) to (batch, outputs)."""
        return self.drop(self.act(self.linear(x)))


class MLP(nn.Module):
    """Seven hidden layers and a head.

    Args:
        activation: Class of the activations.
    """

    def __init__(self, activation: type[nn.Module] = nn.ReLU) -> None:
        super().__init__()
        self.between: Between = unchanged
        widths = [16] + [32] * 7
        self.layers = nn.ModuleList(Dense(a, b, activation) for a, b in pairwise(widths))
        self.head = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 5)."""
        for i, layer in enumerate(self.layers):
            x = self.between(i, layer(x))
        return self.head(x)


class ConvStage(nn.Module):
    """A convolution, a batch norm and a ReLU.

    Args:
        inputs: Channels that come in.
        outputs: Channels that go out.
        stride: Of the convolution.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm, self.act, self.drop = nn.BatchNorm2d(outputs), nn.ReLU(), nn.Dropout(0.02)

    def forward(self, x: Tensor) -> Tensor:
        """Images of other channels."""
        return self.drop(self.act(self.norm(self.conv(x))))


class CNN(nn.Module):
    """Five stages for images of 8 by 8, a mean over the image, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.between: Between = unchanged
        shapes = [(1, 8, 1), (8, 12, 1), (12, 16, 2), (16, 16, 1), (16, 24, 2)]
        self.layers = nn.ModuleList(ConvStage(*shape) for shape in shapes)
        self.head = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 10)."""
        for i, layer in enumerate(self.layers):
            x = self.between(i, layer(x))
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    """Causal attention of four heads.

    Args:
        width: Of its rows.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.scale = (width // 4) ** -0.5

    def forward(self, x: Tensor) -> Tensor:
        """Rows of (batch, tokens, width), of the same shape."""
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        return self.proj(mixed.transpose(1, 2).reshape(n, t, c))


class Feed(nn.Module):
    """The two linear layers of a block.

    Args:
        width: Of its rows.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.act = nn.Linear(width, 4 * width), nn.GELU()
        self.down, self.drop = nn.Linear(4 * width, width), nn.Dropout(0.02)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of the same shape."""
        return self.drop(self.down(self.act(self.up(x))))


class Block(nn.Module):
    """A block of a transformer, norms first.

    Args:
        width: Of its rows.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width)
        self.norm2, self.mlp = nn.LayerNorm(width), Feed(width)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of the same shape."""
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A decoder of four blocks for ASCII text.

    Args:
        words: Size of the vocabulary.
        is_tied: Whether the head has the weight of the embedding.
    """

    def __init__(self, words: int = 128, *, is_tied: bool = False) -> None:
        super().__init__()
        width = 32
        self.between: Between = unchanged
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(32, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.08)
        if is_tied:
            self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, tokens, words)."""
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for i, layer in enumerate(self.layers):
            x = self.between(i, layer(x))
        return self.head(self.norm(x))


class Router(nn.Module):
    """Chooses experts for each token, and keeps the loss that balances them.

    Args:
        width: Of its rows.
        experts: How many there are.
        k: How many each token gets.
    """

    def __init__(self, width: int, experts: int = 8, k: int = 2) -> None:
        super().__init__()
        self.num_experts, self.top_k = experts, k
        self.linear = nn.Linear(width, experts, bias=False)
        self.balance = torch.zeros(())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits, weights and indices of the experts that are chosen."""
        logits = self.linear(x)
        shares = logits.softmax(-1)
        weights, chosen = shares.topk(self.top_k, dim=-1)
        load = F.one_hot(chosen, self.num_experts).float().sum(-2).flatten(0, -2).mean(0)
        self.balance = self.num_experts * (load * shares.flatten(0, -2).mean(0)).sum()
        return logits, weights / weights.sum(-1, keepdim=True), chosen


class Mixture(nn.Module):
    """Feeds of which each token gets two.

    Args:
        width: Of its rows.
        experts: How many there are.
    """

    def __init__(self, width: int, experts: int = 8) -> None:
        super().__init__()
        self.router = Router(width, experts)
        self.experts = nn.ModuleList(Feed(width) for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        """Rows of the same shape."""
        _, weights, chosen = self.router(x)
        mixed = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            share = (weights * (chosen == i)).sum(-1, keepdim=True)
            mixed = mixed + share * expert(x)
        return mixed


class MoE(GPT):
    """The GPT with a mixture of experts in every other block."""

    def __init__(self) -> None:
        super().__init__()
        for i in (1, 3):
            mixture = Mixture(32)
            for parameter in mixture.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=0.08)
            self.layers[i].add_module("mlp", mixture)

    def balance(self) -> Tensor:
        """The loss of the last forward that balances the experts."""
        routers = [part for part in self.modules() if isinstance(part, Router)]
        return torch.stack([router.balance for router in routers]).mean()


class LSTM(nn.Module):
    """A classifier of sequences by the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(16, 16)
        self.lstm = nn.LSTM(16, 32, batch_first=True)
        self.head = nn.Linear(32, 4)
        nn.init.ones_(self.lstm.get_parameter("bias_hh_l0").data[32:64])  # the forget gate

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        states, _ = self.lstm(self.words(ids))
        return self.head(states[:, -1])


class GAN(nn.Module):
    """Two networks of three layers for points in the plane."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = _perceptron(4, 2, nn.ReLU)
        self.discriminator = _perceptron(2, 1, nn.LeakyReLU)

    def forward(self, noise: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of real points above false ones, cut off; and of false ones, for the generator."""
        false = self.generator(noise)
        judged = self.discriminator(torch.cat([real, false.detach()]))
        return judged, self.discriminator(false)


def _perceptron(inputs: int, outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    layers = [nn.Linear(inputs, 32), activation(), nn.Linear(32, 32), activation()]
    return nn.Sequential(*layers, nn.Linear(32, outputs))
