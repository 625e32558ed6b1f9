"""Forwards that compute something else than was meant."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training
from benchmarks.faults.vision import Fed

_NEIGHBOURS = ("{block}.*", "{behind}.*")


def _put(t: Training, change: Callable[[int, Tensor], Tensor]) -> None:
    """Has a function of the step and the output take the place behind the last block but one."""
    last = len(list(t.model.get_submodule("layers").children())) - 1
    t.names = {**t.names, "block": f"layers.{last - 1}", "behind": f"layers.{last}"}
    now = [0]
    t.before_step.append(lambda step: now.__setitem__(0, step))

    def between(stage: int, x: Tensor) -> Tensor:
        return change(now[0], x) if stage == last - 1 else x

    t.model.between = between  # pyright: ignore[reportArgumentType]


@fault("mlp cnn gpt", *_NEIGHBOURS)
def divided_by_the_norm_of_the_batch(t: Training) -> None:
    """A norm without its `dim`, which is that of all rows together."""
    _put(t, lambda step, x: x / x.norm())


@fault("mlp-tanh gpt", *_NEIGHBOURS)
def root_in_the_branch_that_is_not_taken(t: Training) -> None:
    """A signed root by `torch.where`, from step 30: NaN times zero is NaN in the backward."""

    def root(step: int, x: Tensor) -> Tensor:
        return torch.where(x > 0, x.sqrt(), -(-x).sqrt()) if step >= 30 else x

    _put(t, root)


@fault("mlp cnn", *_NEIGHBOURS, kinds="plateau|batch_axis")
def view_where_a_transpose_was_meant(t: Training) -> None:
    """Rows that are made of pieces of other samples, which no longer belong to their labels."""
    _put(t, lambda step, x: x.reshape(x.shape[1], x.shape[0], *x.shape[2:]).transpose(0, 1))


@fault("gpt-tied moe", "layers.0.*", kinds="missing_residual")
def first_block_that_forgets_its_input(t: Training) -> None:
    """Attention whose input is not added: tokens know the past, and not themselves."""

    def forward(self, old, x: Tensor) -> Tensor:
        x = self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))

    change_class(t.model.get_submodule("layers.0"), forward)


@fault("resnet levit", "{stage}.*", kinds="missing_residual")
def block_without_its_way_round(t: Training) -> None:
    """A branch whose input is not added; where it begins at nothing, nothing comes out."""

    def forward(self, old, x: Tensor) -> Tensor:
        if isinstance(self, Fed):
            return self.down(self.act(self.up(x)))
        return self.act2(self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x))))))

    change_class(t.module("stage"), forward)


@fault("mlp-tanh lstm cnn", "{last}", kinds="squash")
def tanh_behind_the_head(t: Training) -> None:
    """Logits between -1 and 1, which can be sure of nothing."""
    change_class(t.model, lambda self, old, x: old(x).tanh())


@fault("gpt lstm", "{first}")
def embedding_cut_to_a_hundredth(t: Training) -> None:
    """An embedding whose `max_norm` cuts each row down at each forward."""
    t.module("first").max_norm = 0.01


@fault("mlp-tanh", "layers.0.*", kinds="input|saturated")
def inputs_at_the_ends_of_the_first_tanh(t: Training) -> None:
    """Inputs in other units, which leave the first activation no slope."""
    t.change_batch(lambda step, x, y: (60 * x, y))


@fault("mlp", "{late}")
def weight_that_is_no_parameter(t: Training) -> None:
    """A weight that was registered as a buffer, so that nothing trains it."""
    layer = t.module("late")
    weight = layer.weight.detach().clone()
    del layer.weight
    layer.register_buffer("weight", weight)
    t.optimizer.param_groups[0]["params"] = [*t.model.parameters()]
