"""What is trained: GPTs and a ResNet-50 of usual sizes, and tiny ones of the same kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from benchmarks.overhead.models import GPT, Batch, Case


class Bottleneck(nn.Module):
    """A block of a ResNet-50, with ReLUs in place.

    Args:
        before: Channels that come in.
        width: Channels of its middle, a fourth of those that go out.
        stride: Of the middle convolution.
    """

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width
        self.conv1 = nn.Conv2d(before, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.conv3 = nn.Conv2d(width, after, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.bn3, self.relu = nn.BatchNorm2d(after), nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            conv = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """Images of other channels, smaller by the stride."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        y += self.shortcut(x)
        return self.relu(y)


def resnet(depths: Sequence[int], width: int, classes: int) -> nn.Sequential:
    """A ResNet of bottlenecks, as channels-last; depths of (3, 4, 6, 3) and width 64 are the 50."""
    stem = [nn.Conv2d(3, width, 7, 2, padding=3, bias=False), nn.BatchNorm2d(width)]
    blocks: list[nn.Module] = []
    before = width
    for i, depth in enumerate(depths):
        for j in range(depth):
            blocks.append(Bottleneck(before, width << i, 2 if i and not j else 1))
            before = 4 * (width << i)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes)]
    model = nn.Sequential(*stem, nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), *blocks, *head)
    return model.to(memory_format=torch.channels_last)


def _sentences(words: int, sentences: int, tokens: int) -> Callable[[], Batch]:
    def batch() -> Batch:
        ids = torch.randint(words, (sentences, tokens + 1))
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    return batch


def _images(images: int, size: int, classes: int) -> Callable[[], Batch]:
    def batch() -> Batch:
        x = torch.randn(images, 3, size, size).to(memory_format=torch.channels_last)
        return x, torch.randint(classes, (images,))

    return batch


def _gpt(
    title: str, sizes: tuple[int, int, int], sentences: int, tokens: int, words: int, rounds: int
) -> Case:
    depth, width, heads = sizes
    return Case(
        title,
        lambda: GPT(words, tokens, width, depth, heads),
        _sentences(words, sentences, tokens),
        rounds,
    )


CASES = {
    "gpt12": _gpt(
        "GPT, 12 layers of 768, 8 × 1024", (12, 768, 12), 8, 1024, words=50304, rounds=20
    ),
    "resnet50": Case(
        "ResNet-50, 64 × 224²",
        lambda: resnet((3, 4, 6, 3), 64, 1000),
        _images(64, 224, 1000),
        rounds=20,
    ),
    "gpt24": _gpt(
        "GPT, 24 layers of 1024, 8 × 1024", (24, 1024, 16), 8, 1024, words=50304, rounds=20
    ),
}

TINY = {
    "gpt2": _gpt("GPT, 2 layers of 32", (2, 32, 2), 2, 16, words=64, rounds=3),
    "resnet": Case(
        "ResNet, 2 bottlenecks", lambda: resnet((1, 1), 8, 10), _images(2, 32, 10), rounds=3
    ),
}
"""To see that the benchmark runs."""
