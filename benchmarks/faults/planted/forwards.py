"""Forwards of one block among many that are not those of the others."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


def _change_one(t: Training, odd: str, forward: Any) -> None:
    """Gives all modules of a role one class, of which one alone has another forward.

    Args:
        t: The training.
        odd: The name of that one, which is in a block.
        forward: It takes the module, the old forward and the inputs.
    """
    _, number, *rest = odd.split(".")
    for i, block in enumerate(t.model.get_submodule("layers").children()):
        module = block.get_submodule(".".join(rest))
        module.is_changed = lambda is_odd=str(i) == number: is_odd  # pyright: ignore[reportArgumentType]
        change_class(
            module,
            lambda self, old, *xs: forward(self, old, *xs) if self.is_changed() else old(*xs),
        )


def _with_detached_skip(self: Any, old: Any, x: Tensor) -> Tensor:
    x = x.detach() + self.attn(self.norm1(x))
    return x + self.mlp(self.norm2(x))


@fault("gpt gpt-tied", "layers.2", "layers.2.*")
def skip_that_is_detached(t: Training) -> None:
    """A block whose gradient comes back through its attention alone."""
    _change_one(t, "layers.2", _with_detached_skip)


@fault("gpt gpt-tied", "layers.0", "layers.0.*")
def skip_of_the_first_that_is_detached(t: Training) -> None:
    """A first block that leaves the embeddings next to no gradient."""
    _change_one(t, "layers.0", _with_detached_skip)


@fault("gpt gpt-tied", "layers.1", "layers.1.*")
def second_residual_left_out(t: Training) -> None:
    """A block whose last layers forget what came before."""

    def forward(self: Any, old: Any, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return self.mlp(self.norm2(x))

    _change_one(t, "layers.1", forward)


@fault("gpt gpt-tied", "layers.2.mlp", "layers.2.mlp.*")
def two_layers_with_nothing_between(t: Training) -> None:
    """Two linear layers of one block with nothing between them."""

    def forward(self: Any, old: Any, x: Tensor) -> Tensor:
        return self.drop(self.down(self.up(x)))

    _change_one(t, "layers.2.mlp", forward)


@fault("gpt gpt-tied", "layers.1", "layers.1.*")
def norm_of_a_norm(t: Training) -> None:
    """A norm of what the norm has made already."""

    def forward(self: Any, old: Any, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(self.norm2(x)))

    _change_one(t, "layers.1", forward)


@fault("gpt", "layers.1", "layers.1.*")
def mask_left_out_in_one_of_three(t: Training) -> None:
    """A block that sees the tokens that it has to guess, of a model of three."""

    def forward(self: Any, old: Any, x: Tensor) -> Tensor:
        n, length, width = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.proj(mixed.transpose(1, 2).reshape(n, length, width))

    blocks = t.model.get_submodule("layers")
    t.model.layers = nn.ModuleList([*blocks.children()][:3])
    t.optimizer.param_groups[0]["params"] = [*t.model.parameters()]
    _change_one(t, "layers.1.attn", forward)
