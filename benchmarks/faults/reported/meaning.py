"""Faults of meaning: all sizes are usual, and what is computed is not what was meant."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


def _mask(t: Training, mask: Tensor) -> None:
    """Gives an attention a mask of its own, True where a key is allowed."""

    def forward(self, old, x: Tensor) -> Tensor:
        n, s, c = x.shape
        q, k, v = self.qkv(x).view(n, s, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, mask, scale=self.scale)
        return self.proj(mixed.transpose(1, 2).reshape(n, s, c))

    change_class(t.module("attention"), forward)


@fault("gpt", "{attention}*")
def causal_mask_turned_round(t: Training) -> None:
    """True where MultiheadAttention would hide a key, given to scaled_dot_product_attention."""
    _mask(t, torch.ones(32, 32, dtype=torch.bool).triu(1))


@fault("gpt", "{attention}*")
def causal_mask_missing_in_one_block(t: Training) -> None:
    """One block that sees the future."""
    _mask(t, torch.ones(32, 32, dtype=torch.bool))


@fault("gpt", "{attention}*")
def causal_mask_missing_in_one_head(t: Training) -> None:
    """One head of one block that sees the future."""
    mask = torch.ones(4, 32, 32, dtype=torch.bool).tril()
    mask[2] = True
    _mask(t, mask)


@fault("lstm", "{middle}")
def batch_first_forgotten(t: Training) -> None:
    """A recurrent layer that takes the batch for time."""
    t.module("middle").batch_first = False


@fault("lstm", "{middle}")
def batch_first_forgotten_before_a_mean(t: Training) -> None:
    """The same, where the mean over time is classified."""

    def forward(self, old, ids: Tensor) -> Tensor:
        return self.head(self.lstm(self.words(ids))[0].mean(1))

    t.module("middle").batch_first = False
    change_class(t.model, forward)


@fault("cnn", kinds="evaluation_mode")
def evaluation_that_is_never_undone(t: Training) -> None:
    """The mode of an evaluation, in which the training goes on."""
    t.at(40, t.model.eval)


@fault("mlp cnn", kinds="class_axis")
def log_softmax_over_the_samples(t: Training) -> None:
    """Probabilities that add up to 1 over the batch."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.nll_loss(F.log_softmax(model(x), dim=0), y)
        loss.backward()
        return loss

    t.backward = backward


@fault("cnn", kinds="plateau")
def labels_of_another_sample(t: Training) -> None:
    """Labels that are one sample behind, as a loader that shuffles them apart gives."""
    t.steps = 150
    t.change_batch(lambda step, x, y: (x, y.roll(1)))


@fault("mlp cnn", "{last}")
def head_replaced_after_the_optimizer_was_built(t: Training) -> None:
    """An optimizer of the head that the model had before."""
    t.steps = 10
    old = t.module("last")
    t.model.set_submodule(t.names["last"], nn.Linear(old.in_features, old.out_features))


@fault("gpt-tied", kinds="parted_copies", notes=True)
def weights_that_loading_untied(t: Training) -> None:
    """A checkpoint whose tensors take the place of parameters, tied ones too."""
    state = {name: tensor.clone() for name, tensor in t.model.state_dict().items()}
    t.model.load_state_dict(state, assign=True)
    t.optimizer = torch.optim.AdamW(t.model.parameters(), lr=3e-3)
