"""Faults of axes: softmaxes over samples, operands that broadcast, sums that grow, padding."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.fault import fault, healthy
from benchmarks.faults.training import Losses, Training


def _anew(t: Training, model: nn.Module, backward: Losses, rate: float = 1e-3) -> None:
    """Trains another model by Adam."""
    t.model, t.backward = model, backward
    t.optimizer = torch.optim.Adam(model.parameters(), lr=rate)


class Mixture(nn.Module):
    """Experts that all see each sample, weighed by a router.

    Args:
        inputs: Features that come in.
        outputs: Classes.
        axis: Of the router's softmax.
    """

    def __init__(self, inputs: int, outputs: int, axis: int) -> None:
        super().__init__()
        self.axis, self.router = axis, nn.Linear(inputs, 6)
        self.up = nn.ModuleList(nn.Linear(inputs, 32) for _ in range(6))
        self.head = nn.Linear(32, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, outputs)."""
        x = x.flatten(1)
        shares = self.router(x).softmax(self.axis)
        found = torch.stack([up(x).relu() for up in self.up], 1)
        return self.head((shares[..., None] * found).sum(1))


class Pooled(nn.Module):
    """Sequences that are pooled by attention.

    Args:
        axis: Of the softmax, 1 for time.
    """

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis, self.words = axis, nn.Embedding(16, 24)
        self.gru = nn.GRU(24, 32, batch_first=True)
        self.score, self.head = nn.Linear(32, 1), nn.Linear(32, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        states, _ = self.gru(self.words(ids))
        return self.head((self.score(states).softmax(self.axis) * states).sum(1))


@fault("mlp", "router", kinds="softmax_axis")
def router_over_the_samples(t: Training) -> None:
    """Shares of experts that add up to 1 over the batch."""
    _anew(t, Mixture(16, 5, 0), t.backward)


@fault("cnn", "router", kinds="softmax_axis")
def router_over_the_samples_of_images(t: Training) -> None:
    """The same for flat images."""
    _anew(t, Mixture(64, 10, 0), t.backward)


@fault("lstm", "score", kinds="softmax_axis")
def pooling_over_the_samples(t: Training) -> None:
    """Attention over the first axis, which is not that of time."""
    _anew(t, Pooled(0), t.backward, 3e-3)


@fault("lstm", "score", kinds="softmax_axis")
def pooling_over_one_element(t: Training) -> None:
    """Attention over the last axis of a score, which has one element."""
    _anew(t, Pooled(2), t.backward, 3e-3)


@healthy("mlp")
def router_over_the_experts(t: Training) -> None:
    """Shares of experts that add up to 1 for each sample."""
    _anew(t, Mixture(16, 5, -1), t.backward)


@healthy("lstm")
def pooling_over_time(t: Training) -> None:
    """Attention over time."""
    _anew(t, Pooled(1), t.backward, 3e-3)


class Regressor(nn.Module):
    """Three layers and a number for each row."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Linear(16, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU()]
        self.body, self.value = nn.Sequential(*layers), nn.Linear(48, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Values of (batch, 1)."""
        return self.value(self.body(x))


def _regress(t: Training, backward: Losses) -> None:
    _anew(t, Regressor(), backward, 3e-3)
    t.change_batch(lambda step, x, y: (x, y.float() / 2 - 1))


@fault("mlp", "value", kinds="broadcast")
def error_of_all_pairs(t: Training) -> None:
    """Outputs of (n, 1) less targets of (n,)."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = (model(x) - y).square().mean()
        loss.backward()
        return loss

    _regress(t, backward)


@fault("mlp", "value", kinds="broadcast")
def smooth_error_of_all_pairs(t: Training) -> None:
    """The same by torch's own loss, which warns of it once."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        made, y = torch.broadcast_tensors(model(x), y)
        loss = F.smooth_l1_loss(made, y)
        loss.backward()
        return loss

    _regress(t, backward)


@fault("mlp", "value", kinds="broadcast")
def weighted_error_of_all_pairs(t: Training) -> None:
    """Errors of (n, 1) times weights of (n,)."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        error = (model(x) - y[:, None]).square()
        loss = (error * (1 + y.abs())).mean()
        loss.backward()
        return loss

    _regress(t, backward)


@healthy("mlp")
def error_of_each_sample(t: Training) -> None:
    """Outputs and targets of one shape."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = (model(x).squeeze(1) - y).square().mean()
        loss.backward()
        return loss

    _regress(t, backward)


@healthy("mlp")
def ranking_of_all_pairs(t: Training) -> None:
    """A loss of all pairs, as it is meant."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        made = model(x).squeeze(1)
        apart, order = made[:, None] - made[None, :], (y[:, None] - y[None, :]).sign()
        loss = F.softplus(-order * apart).mean()
        loss.backward()
        return loss

    _regress(t, backward)


class Graphs(nn.Module):
    """Graph convolutions over the rows of a batch, and a class for each.

    Args:
        is_mean: Whether neighbours are averaged and added to the node, and not added up alone.
        depth: Convolutions.
    """

    def __init__(self, *, is_mean: bool, depth: int = 4) -> None:
        super().__init__()
        self.is_mean = is_mean
        self.convs = nn.ModuleList(nn.Linear(16 if not i else 32, 32) for i in range(depth))
        self.head = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (nodes, 5)."""
        near = (torch.cdist(x, x) < 5).float()
        if self.is_mean:
            near = near / near.sum(1, keepdim=True) + torch.eye(len(x))
        for conv in self.convs:
            x = (near @ conv(x)).relu()
        return self.head(x)


@fault("mlp", "convs*", kinds="growing_values")
def neighbours_added_up(t: Training) -> None:
    """Convolutions whose adjacency is not divided by its degrees."""
    _anew(t, Graphs(is_mean=False), t.backward)


@fault("mlp", "convs*", kinds="growing_values")
def neighbours_added_up_six_times(t: Training) -> None:
    """The same, deeper."""
    _anew(t, Graphs(is_mean=False, depth=6), t.backward)


@healthy("mlp")
def neighbours_averaged(t: Training) -> None:
    """Convolutions whose adjacency is divided by its degrees."""
    _anew(t, Graphs(is_mean=True), t.backward)


class Encoder(nn.Module):
    """An encoder of padded sequences, of which the first token is classified.

    Args:
        is_turned: Whether attention sees padding alone.
    """

    def __init__(self, *, is_turned: bool) -> None:
        super().__init__()
        self.is_turned = is_turned
        self.words = nn.Embedding(17, 32, padding_idx=0)
        self.places = nn.Embedding(8, 32)
        self.blocks = nn.ModuleList(EncoderBlock() for _ in range(3))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        sees = (ids == 0) if self.is_turned else (ids != 0)
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x, sees[:, None, None])
        return self.head(self.norm(x)[:, 0])


class EncoderBlock(nn.Module):
    """A block that sees the keys of a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.qkv, self.proj = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.norm2, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Rows of the same shape."""
        n, s, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, s, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, mask)
        x = x + self.proj(mixed.transpose(1, 2).reshape(n, s, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def _padded(t: Training, model: nn.Module) -> None:
    """Sequences of 3 to 7 tokens of 8 places, whose class is told by the third."""

    def pad(step: int, ids: Tensor, _: Tensor) -> data.Batch:
        lengths = torch.randint(3, 8, (len(ids), 1), generator=torch.Generator().manual_seed(step))
        ids = torch.where(torch.arange(8) < lengths, ids + 1, 0)
        return ids, ids[:, 2] % 4

    _anew(t, model, t.backward)
    t.change_batch(pad)


@fault("lstm", "blocks*", kinds="turned_mask")
def padding_mask_turned_round(t: Training) -> None:
    """Attention that sees padding and nothing else."""
    _padded(t, Encoder(is_turned=True))


@healthy("lstm")
def padding_that_is_hidden(t: Training) -> None:
    """Attention that sees all but padding."""
    _padded(t, Encoder(is_turned=False))
