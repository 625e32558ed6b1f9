"""Mistakes in networks: gates, functions of one's own, masks and views."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.fault import fault
from benchmarks.faults.own.language import BabyGPT, Causal, of_the_last, of_tokens
from benchmarks.faults.own.rows import Activated
from benchmarks.faults.own.training import Figure, train
from benchmarks.faults.training import Training


class Gate(nn.Module):
    """A mixture of which each row gets the best expert.

    Args:
        weighed: Whether what it makes is multiplied by the gate's probability.
    """

    def __init__(self, *, weighed: bool) -> None:
        super().__init__()
        self.weighed = weighed
        self.inp, self.gate = nn.Linear(16, 32), nn.Linear(32, 4, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 32)) for _ in range(4)
        )
        self.out = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 5)."""
        x = torch.tanh(self.inp(x))
        probabilities = F.softmax(self.gate(x), dim=-1)
        top, index = probabilities.max(-1)
        made = torch.stack([expert(x) for expert in self.experts], 1)
        chosen = made.gather(1, index[:, None, None].expand(-1, 1, 32)).squeeze(1)
        return self.out(chosen * top[:, None] if self.weighed else chosen)


@fault("mlp", "gate", kinds="untaught_router|missing_gradient|detached|zero_gradient|no_update")
def gate_behind_an_argmax(t: Training, *, mended: bool = False) -> None:
    """The gate's gradient is None: top-1 chooses, and its probability is not multiplied by.

    lucidrains/mixture-of-experts#7
    """
    train(t, Gate(weighed=mended), lambda net, x, y: F.cross_entropy(net(x), y), lr=3e-3)


class MyReLU(torch.autograd.Function):
    """A ReLU whose backward forgets what comes from behind."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """The positive part."""
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """The derivative alone."""
        (x,) = ctx.saved_tensors
        return (x > 0).to(grads[0].dtype)


@fault("mlp", "fc1", "fc2", kinds="gradient_jump|exploding_gradient|changed_gradient|large_steps")
def backward_without_the_incoming_gradient(t: Training, *, mended: bool = False) -> None:
    """A custom Function returns its own derivative, which is not multiplied by grad_output.

    pytorch/pytorch#4355, vinsis/ternary-quantization#1
    """

    def act(x: Tensor) -> Tensor:
        return x.clamp(min=0) if mended else MyReLU.apply(x)

    train(t, Activated(act), lambda net, x, y: F.cross_entropy(net(x), y), lr=3e-3)
    t.optimizer = torch.optim.SGD(t.model.parameters(), lr=0.1)


@fault("gpt", "layers.*.attn*", kinds="missing_mask|trivial_loss")
def decoder_without_a_mask(t: Training, *, mended: bool = False) -> Figure:
    """Training loss is fine and what it writes is garbage: no causal mask is applied.

    alex-matton/causal-transformer-decoder#1, facebookresearch/xformers#103
    """
    fresh = t.batch
    train(t, BabyGPT(lambda: Causal(masked=mended)), of_tokens, lr=1e-2)
    t.steps = 200
    return of_the_last(fresh)


class VideoDecoder(nn.Module):
    """An LSTM over the frames of videos, which come batch first.

    Args:
        viewed: Whether time is made the first axis by view, and not by transpose.
    """

    def __init__(self, *, viewed: bool) -> None:
        super().__init__()
        self.viewed = viewed
        self.frames = nn.Embedding(16, 16)
        self.lstm = nn.LSTM(16, 32)
        self.fc = nn.Linear(32, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        x = self.frames(ids)
        x = x.view(x.size(1), x.size(0), -1) if self.viewed else x.transpose(0, 1)
        out, _ = self.lstm(x)
        return self.fc(out[-1])


@fault("lstm", "lstm", "frames", kinds="torn_view|batch_axis")
def time_made_first_by_view(t: Training, *, mended: bool = False) -> None:
    """x.view(seq, batch, -1) has the shape that the LSTM wants, and samples all mixed.

    HHTseng/video-classification#42
    """
    net = VideoDecoder(viewed=not mended)
    train(t, net, lambda net, x, y: F.cross_entropy(net(x), y), lr=1e-2)
    t.change_batch(lambda step, x, _: (x, x[:, 5] % 4))
