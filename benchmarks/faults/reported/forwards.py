"""Faults in what a forward computes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


@fault("gpt", "{attention}*")
def softmax_over_the_queries(t: Training) -> None:
    """The softmax of attention along the wrong dimension."""

    def forward(self, old, x: Tensor) -> Tensor:
        n, s, c = x.shape
        q, k, v = self.qkv(x).view(n, s, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        mixed = (q @ k.transpose(-1, -2) * self.scale).softmax(-2) @ v
        return self.proj(mixed.transpose(1, 2).reshape(n, s, c))

    change_class(t.module("attention"), forward)


@fault("gpt", "{attention}*")
def scores_not_scaled_down(t: Training) -> None:
    """Scores of attention times the square root of the width of a head, not over it."""
    t.module("attention").scale = 50.0


@fault("gpt cnn", "{norm}")
def epsilon_of_10000(t: Training) -> None:
    """An epsilon of a norm far above any variance."""
    t.module("norm").eps = 1e4


@fault("gpt", "{norm}", "{stage}.mlp.up")
def norm_over_the_tokens(t: Training) -> None:
    """A norm along the tokens, in place of the features."""

    def forward(self, old, x: Tensor) -> Tensor:
        return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-8) ** 2

    change_class(t.module("norm"), forward)


@fault("gpt", "{attention}*", "{attention_norm}")
def detached_attention(t: Training) -> None:
    """A branch whose output is cut off from autograd."""
    change_class(t.module("attention"), lambda self, old, x: old(x).detach())


@fault("mlp cnn gpt", "{stage}*", kinds="detached|missing")
def detached_between(t: Training) -> None:
    """A detach between two stages."""
    t.model.between = lambda i, x: x.detach() if i == _stage(t) else x


@fault("mlp gpt cnn", "{stage}*", "{next}*")
def output_times_a_thousandth(t: Training) -> None:
    """What passes from a stage to the next is scaled down."""
    t.model.between = lambda i, x: x * 1e-3 if i == _stage(t) else x


@fault("mlp gpt", "{stage}*", "{next}*")
def hundred_added_between(t: Training) -> None:
    """A constant added between two stages."""
    t.model.between = lambda i, x: x + 100 if i == _stage(t) else x


@fault("mlp cnn", "{stage}*", "{next}*")
def clamped_to_nothing_between(t: Training) -> None:
    """A clamp between two stages that leaves nothing."""
    t.model.between = lambda i, x: x.clamp(-1e-4, 1e-4) if i == _stage(t) else x


@fault("mlp cnn gpt", "{act}", "{drop}", "{after}", "{stage}", "{next}*")
def forward_hook_times_50(t: Training) -> None:
    """A forward hook on an activation that scales what it returns."""
    t.module("act").register_forward_hook(lambda module, args, out: out * 50)


@fault("mlp gpt", "{middle}", "{act}", "{stage}*")
def forward_hook_that_grows(t: Training) -> None:
    """A forward hook whose factor grows from step to step."""
    factor = [1.0]
    t.each_step(lambda: factor.__setitem__(0, factor[0] * 1.1))
    t.module("middle").register_forward_hook(lambda module, args, out: out * factor[0])


@fault("mlp gpt cnn", "{drop}")
def dropout_of_99_in_100(t: Training) -> None:
    """The share that is kept given as the one that is dropped."""
    t.module("drop").p = 0.99


@fault("gpt", "{stage}*")
def residual_times_30(t: Training) -> None:
    """A branch scaled up before it is added."""

    def forward(self, old, x: Tensor) -> Tensor:
        x = x + 30 * self.attn(self.norm1(x))
        return x + 30 * self.mlp(self.norm2(x))

    change_class(t.module("stage"), forward)


@fault("gpt", "{stage}*", "{next}*")
def no_residual(t: Training) -> None:
    """A block whose input is not added, with a tiny branch: little comes out."""

    def forward(self, old, x: Tensor) -> Tensor:
        return 0.01 * self.mlp(self.norm2(self.attn(self.norm1(x))))

    change_class(t.module("stage"), forward)


@fault("mlp cnn gpt", "{middle}", "{act}", "{stage}*")
def overflow_of_float16(t: Training) -> None:
    """One layer computes in float16, with a factor that overflows."""

    def forward(self, old, x: Tensor) -> Tensor:
        return (old(x).half() * 3e4).float() / 3e4

    change_class(t.module("middle"), forward)


@fault("mlp cnn", "{stage}*", kinds="missing|no_update")
def stage_never_called(t: Training) -> None:
    """A stage that the forward forgets."""
    skipped = _stage(t) if t.names["stage"] != "layers.3" else 3

    def forward(self, old, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = x if i == skipped else layer(x)
        return self.head(x.mean((2, 3)) if x.dim() == 4 else x)

    if t.names["middle"].endswith("conv"):
        skipped = 3  # of as many channels in as out
        t.names = {**t.names, "stage": "layers.3"}
    change_class(t.model, forward)


@fault("gpt", "places")
def positions_of_zero(t: Training) -> None:
    """Positions that are zero, and frozen."""
    places = t.model.get_submodule("places")
    torch.nn.init.zeros_(places.weight)
    places.weight.requires_grad_(False)


@fault("mlp gpt", "{middle}", "{act}", "{stage}*")
def log_of_what_may_be_negative(t: Training) -> None:
    """A logarithm in a layer whose argument falls below zero."""
    change_class(t.module("middle"), lambda self, old, x: (old(x) + 1.5).log())


@fault("mlp cnn", "{act}", "{stage}*", "{next}*")
def threshold_instead_of_relu(t: Training) -> None:
    """An activation that passes next to nothing."""
    change_class(t.module("act"), lambda self, old, x: F.relu(x - 6))


@fault("gpt mlp", "{act}", "{middle}")
def sign_as_activation(t: Training) -> None:
    """An activation without a derivative."""
    change_class(t.module("act"), lambda self, old, x: x.sign())


@fault("mlp cnn", "{stage}*", "{next}*", kinds="plateau")
def wrong_permutation(t: Training) -> None:
    """Rows of a batch mixed up between two stages."""
    t.model.between = lambda i, x: x[torch.randperm(len(x))] if i == _stage(t) else x


@fault("cnn", "{norm}")
def batch_norm_in_eval(t: Training) -> None:
    """A BatchNorm that keeps its first statistics in training."""
    t.module("norm").eval()


@fault("cnn", "{norm}")
def batch_norm_momentum_of_a_thousandth(t: Training) -> None:
    """A momentum of the kind that other libraries call by the same name."""
    t.module("norm").momentum = 1e-3


def _stage(t: Training) -> int:
    return int(t.names["stage"].rpartition(".")[2])
