"""The models that are watched, each with one batch that stays the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]

PROBED = (nn.Linear, nn.Conv2d, nn.BatchNorm2d)
"""The layers that are read. LayerNorm is not: its weight is a few numbers."""


@dataclass(frozen=True)
class Case:
    """A model and what it is trained with.

    Attributes:
        title: What tables call it.
        build: Makes the model.
        batch: Makes inputs and the classes to be told.
        rounds: How many steps of each tool are measured.
        turn: How many of them it takes before another tool does.
    """

    title: str
    build: Callable[[], nn.Module]
    batch: Callable[[], Batch]
    rounds: int
    turn: int = 1


def probed(model: nn.Module) -> dict[str, nn.Module]:
    """The layers that are read, by name."""
    return {name: m for name, m in model.named_modules() if isinstance(m, PROBED)}


def loss_of(output: Tensor, classes: Tensor) -> Tensor:
    """The cross-entropy over all rows."""
    return F.cross_entropy(output.flatten(0, -2), classes.flatten())


def thin_mlp() -> nn.Sequential:
    """Twenty layers so small that nothing but calls costs time: the worst case for a monitor."""
    return mlp(32)


def mlp(width: int) -> nn.Sequential:
    """Twenty layers of one width, with ReLUs between."""
    layers: list[nn.Module] = []
    for _ in range(20):
        linear = nn.Linear(width, width)
        nn.init.kaiming_normal_(linear.weight)  # so that gradients reach the first layer
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Block(nn.Module):
    """A transformer block with causal attention, norms first.

    Args:
        width: Of its rows.
        heads: How many.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Rows of (batch, tokens, width), of the same shape."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))

    def attention(self, x: Tensor) -> Tensor:
        """What each token takes from itself and those before it."""
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(mixed.transpose(1, 2).reshape(n, t, c))


class GPT(nn.Module):
    """A small decoder.

    Args:
        words: Size of the vocabulary.
        tokens: Length of the context.
        width: Of the rows.
        depth: How many blocks.
        heads: Of each block's attention.
    """

    def __init__(
        self,
        words: int = 256,
        tokens: int = 64,
        width: int = 256,
        depth: int = 6,
        heads: int = 8,
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, tokens, words)."""
        places = self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(self.words(ids) + places)))


class Residual(nn.Module):
    """A basic block of a ResNet, with ReLUs in place.

    Args:
        before: Channels that come in.
        after: Channels that go out.
        stride: Of the first convolution.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1:
            conv = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """Images of other channels, smaller by the stride."""
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.shortcut(x)
        return self.relu(y)


def resnet18() -> nn.Sequential:
    """ResNet-18 as it is usually written: in-place ReLUs, in-place sums."""
    stem = [nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64)]
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    widths += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    blocks = [Residual(*width) for width in widths]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
    return nn.Sequential(*stem, nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), *blocks, *head)


def _rows() -> Batch:
    return torch.randn(64, 32), torch.randint(32, (64,))


def _sentences() -> Batch:
    ids = torch.randint(256, (4, 65))
    return ids[:, :-1], ids[:, 1:]


def _images() -> Batch:
    return torch.randn(16, 3, 64, 64), torch.randint(10, (16,))


CASES = {
    "mlp": Case("MLP-20 thin", thin_mlp, _rows, rounds=600, turn=10),
    "gpt": Case("GPT-6x256", GPT, _sentences, rounds=80),
    "resnet": Case("ResNet-18 (in place)", resnet18, _images, rounds=60),
}
