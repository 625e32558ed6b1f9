"""Sound trainings that look like faults: the nearest to what a rule accuses."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.fault import healthy
from benchmarks.faults.models import Attention
from benchmarks.faults.training import Training, cross_entropy


@healthy("gpt")
def weights_smaller_with_depth(t: Training) -> None:
    """Weights over the root of their layer's number, so that none is like the next."""
    for i, layer in enumerate(t.model.get_submodule("layers").children()):
        for parameter in layer.parameters():
            if parameter.dim() > 1:
                parameter.data /= (i + 1) ** 0.5


@healthy("gpt")
def last_branch_of_zeros(t: Training) -> None:
    """The last of like layers begins at nothing, where a way round it is."""
    *_, last = t.model.get_submodule("layers").children()
    nn.init.zeros_(last.get_parameter("mlp.down.weight"))


@healthy("mlp cnn")
def last_activation_of_another_class(t: Training) -> None:
    """A bounded activation at the end, and none at the beginning."""
    first, *_, last = t.model.get_submodule("layers").children()
    first.add_module("act", nn.Identity())
    last.add_module("act", nn.Tanh())


class Windowed(Attention):
    """Causal attention to the nearest tokens.

    Args:
        width: Of its rows.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Rows of (batch, tokens, width), of the same shape."""
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        seen = torch.ones(t, t, dtype=torch.bool).tril()
        seen &= seen.new_ones(t, t).triu(-1)
        mixed = F.scaled_dot_product_attention(q, k, v, seen, scale=self.scale)
        return self.proj(mixed.transpose(1, 2).reshape(n, t, c))


@healthy("gpt")
def windows_in_every_other_block(t: Training) -> None:
    """Two tokens seen by half of the blocks, and all by the others."""
    for block in [*t.model.get_submodule("layers").children()][::2]:
        block.get_submodule("attn").__class__ = Windowed


@healthy("gpt")
def embeddings_times_the_root_of_their_width(t: Training) -> None:
    """Embeddings that are scaled up, and a stream that is weighed against its branches."""
    t.module("first").register_forward_hook(lambda module, args, out: out * 32**0.5)
    t.model.between = lambda i, x: 1.5 * x  # pyright: ignore[reportArgumentType]


@healthy("mlp cnn gpt")
def noise_from_half_way_on(t: Training) -> None:
    """A regularisation that begins late: a little noise between stages."""
    now = [0]
    t.before_step.append(lambda step: now.__setitem__(0, step))

    def between(stage: int, x: Tensor) -> Tensor:
        return x + 0.1 * x.detach().std() * torch.randn_like(x) if now[0] >= 50 else x

    t.model.between = between  # pyright: ignore[reportArgumentType]


@healthy("mlp cnn gpt")
def a_stage_that_is_frozen_half_way(t: Training) -> None:
    """The first stage is kept as it is from step 50 on."""
    layers: Any = t.model.get_submodule("layers")
    t.at(50, lambda: layers[0].requires_grad_(False))


@healthy("mlp gpt")
def a_step_of_large_weight(t: Training) -> None:
    """A batch of which one counts five hundred times, and gradients that are clipped."""
    calls = [0]

    def weighed(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        calls[0] += 1
        if calls[0] != 60:
            return cross_entropy(model, x, y)
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        (500 * loss).backward()
        return loss

    t.backward, t.clip = weighed, 1.0


@healthy("mlp")
def a_bottleneck(t: Training) -> None:
    """A layer of three units among wide ones."""
    layers: Any = t.model.get_submodule("layers")
    layers[3].linear, layers[4].linear = nn.Linear(32, 3), nn.Linear(3, 32)
    t.optimizer = torch.optim.Adam(t.model.parameters(), lr=3e-3)


@healthy("cnn")
def norms_that_follow_slowly(t: Training) -> None:
    """Running statistics of a longer time, as for small batches."""
    for module in t.model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.05


@healthy("mlp lstm")
def a_head_that_is_a_little_sure(t: Training) -> None:
    """First outputs that are larger than they need be."""
    t.module("last").weight.data *= 3


@healthy("mlp cnn")
def momentum_of_99(t: Training) -> None:
    """A momentum that is large, with a smaller rate, and a schedule that ends at nothing."""
    t.optimizer.param_groups[0].update(momentum=0.99, lr=0.002)
    t.schedule = lambda step: max(0.0, 1 - step / 100)
