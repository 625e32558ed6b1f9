"""Faults of adapters: small matrices beside frozen layers that learn nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.asked.resuming import train_before
from benchmarks.faults.training import Training


class Adapted(nn.Module):
    """A frozen layer and a product of two small matrices that is added to it.

    Args:
        base: The layer.
    """

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        outputs, inputs = base.get_parameter("weight").shape
        self.base = base
        self.lora_a = nn.Linear(inputs, 4, bias=False)
        self.lora_b = nn.Linear(4, outputs, bias=False)
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output, changed."""
        return self.base(x) + self.lora_b(self.lora_a(x))


def adapted(t: Training) -> None:
    """Adds adapters to the attentions of a trained GPT, and trains them and the head."""
    train_before(t, 60)
    t.model.requires_grad_(False)
    t.module("last").requires_grad_(True)
    for block in t.model.get_submodule("layers").children():
        attention = block.get_submodule("attn")
        attention.add_module("qkv", Adapted(attention.get_submodule("qkv")))
    trained = [p for p in t.model.parameters() if p.requires_grad]
    t.optimizer = torch.optim.AdamW(trained, lr=1e-3)
    t.steps = 60


LAYERS = "layers.*.attn.qkv*"


@fault("gpt", LAYERS, WHOLE, kinds="update|gradient|lora|adapter|zero|vanish|detach|checkpoint")
def checkpoints_behind_a_frozen_embedding(t: Training) -> None:
    """Recomputes blocks in the backward the old way, which is none if their inputs need none."""
    adapted(t)
    for block in t.model.get_submodule("layers").children():
        change_class(block, lambda m, old, x: checkpoint(old, x, use_reentrant=True))


@fault("gpt", LAYERS, WHOLE, kinds="update|gradient|lora|adapter|zero|vanish|detach")
def adapter_outside_the_graph(t: Training) -> None:
    """Makes a new tensor of what the adapter gives, which autograd knows nothing of."""
    adapted(t)

    def forward(layer: Any, _: Any, x: Tensor) -> Tensor:
        return layer.base(x) + layer.lora_b(layer.lora_a(x)).data

    for block in t.model.get_submodule("layers").children():
        change_class(block.get_submodule("attn.qkv"), forward)


@fault("gpt", LAYERS, kinds="update|gradient|lora|adapter|zero|vanish|init|dead")
def both_matrices_of_zeros(t: Training) -> None:
    """Initialises both matrices of an adapter with zeros, so that neither has a gradient."""
    adapted(t)
    for name, parameter in t.model.named_parameters():
        if name.endswith("lora_a.weight"):
            nn.init.zeros_(parameter)
