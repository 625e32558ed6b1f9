"""Adapters and frozen parts of models that were trained before, or should have been."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.edits import attentions, train_before
from benchmarks.faults.training import Training

_JUMP = "weight_jump|loss_spike"


class _Adapted(nn.Module):
    """A layer that stays as it is, and two small matrices beside it.

    Args:
        base: The layer.
        scale: Of the change.
    """

    def __init__(self, base: nn.Module, scale: float) -> None:
        super().__init__()
        outputs, inputs = base.get_parameter("weight").shape
        self.base, self.scale = base, scale
        self.down = nn.Linear(inputs, 4, bias=False)
        self.up = nn.Linear(4, outputs, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output, changed."""
        return self.base(x) + self.scale * self.up(self.down(x))


def _adapt(t: Training, scale: float) -> None:
    train_before(t, 25)
    t.model.requires_grad_(False)
    for name in attentions(t):
        attention = t.model.get_submodule(name)
        attention.add_module("qkv", _Adapted(attention.get_submodule("qkv"), scale))
    trained = [parameter for parameter in t.model.parameters() if parameter.requires_grad]
    t.optimizer = torch.optim.AdamW(trained, lr=3e-3)


@fault("gpt", "layers.*.attn.qkv*", WHOLE, kinds="zero_gradient|zero_weight|plateau|no_update")
def both_matrices_of_an_adapter_of_zeros(t: Training) -> None:
    """Small matrices of which both begin at nothing, so that neither ever gets a gradient."""
    _adapt(t, 1.0)
    for name, parameter in t.model.named_parameters():
        if name.endswith("down.weight"):
            nn.init.zeros_(parameter)


@fault("gpt", "layers.*.attn*", kinds="divergence|loss_spike|large_steps")
def scale_of_an_adapter_not_divided_by_its_rank(t: Training) -> None:
    """A change that counts a thousand times what was meant."""
    _adapt(t, 2000.0)


@fault("resnet mobile", "*bn*", "*norm*", "stem.1", "*.downsample.2", kinds="evaluation_mode")
def norms_frozen_as_they_were_made(t: Training) -> None:
    """BatchNorms that are frozen as those of a trained model, before any was loaded."""

    def freeze(step: int) -> None:
        for module in t.model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval().requires_grad_(False)

    t.before_step.append(freeze)
