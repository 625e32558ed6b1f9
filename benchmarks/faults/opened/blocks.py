"""Blocks, branches and norms that are put together in a wrong way."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training
from benchmarks.faults.vision import Residual


def _blocks(t: Training) -> list[nn.Module]:
    return [*t.model.get_submodule("layers").children()]


@fault("gpt", "layers.*")
def branches_times_a_millionth(t: Training) -> None:
    """Scales of branches that begin at a millionth and are no parameters."""

    def forward(self, old, x: Tensor) -> Tensor:
        x = x + 1e-6 * self.attn(self.norm1(x))
        return x + 1e-6 * self.mlp(self.norm2(x))

    for block in _blocks(t):
        change_class(block, forward)


@fault("resnet", "layers.*", kinds="dropout|noise|plateau")
def paths_dropped_that_were_to_be_kept(t: Training) -> None:
    """Branches dropped in 19 of 20 samples, and twenty times as large in the last."""

    def thin(x: Tensor) -> Tensor:
        kept = torch.rand(len(x), *[1] * (x.dim() - 1)) < 0.05
        return 20 * kept * x

    def forward(self, old, x: Tensor) -> Tensor:
        if isinstance(self, Residual):
            branch = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
            return self.act2(thin(branch) + self.downsample(x))
        x = x + thin(self.attn(self.norm1(x)))
        return x + thin(self.mlp(self.norm2(x)))

    for block in _blocks(t):
        change_class(block, forward)


@fault("gpt", "layers.*.norm*", "norm", kinds="missing_norm|growing|wild")
def divided_by_the_variance(t: Training) -> None:
    """Norms without a root: rows that are small come out large, and large ones small."""

    def forward(self, old, x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) / (
            x.var(-1, keepdim=True) + 1e-5
        ) * self.weight + self.bias

    for module in t.model.modules():
        if isinstance(module, nn.LayerNorm):
            change_class(module, forward)


@fault("gpt", "layers.*", kinds="wild_start|growing")
def branches_of_unit_deviation(t: Training) -> None:
    """Weights of all blocks drawn from `torch.randn`, as they are."""
    for block in _blocks(t):
        for parameter in block.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=1.0)


@fault("mlp-tanh", "layers.*", kinds="saturat|plateau|vanish")
def activations_twice_everywhere(t: Training) -> None:
    """A sigmoid in each layer's forward, of a layer that has an activation already."""
    for layer in _blocks(t):
        change_class(layer, lambda self, old, x: old(x).sigmoid())


@fault("mlp-tanh", "layers.*", kinds="wild_start|growing|saturat")
def output_multiplied_by_its_own_input(t: Training) -> None:
    """Layers whose outputs are multiplied by their inputs, where these should be added."""

    def forward(self, old, x: Tensor) -> Tensor:
        return old(x) if x.shape[1] == 16 else old(x) * x

    for layer in _blocks(t):
        change_class(layer, forward)


@fault("resnet", "layers.*", kinds="missing_residual|growing")
def shortcut_added_before_and_behind(t: Training) -> None:
    """Shortcuts that go into the branch's last norm, and are then added thrice."""

    def forward(self, old, x: Tensor) -> Tensor:
        way = self.downsample(x)
        branch = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))) + way)
        return self.act2(branch + 12 * way)

    for block in _blocks(t):
        change_class(block, forward)


@fault("cnn", WHOLE, "layers.0*", kinds="input|plateau")
def strides_that_leave_one_pixel_at_once(t: Training) -> None:
    """A first convolution of a stride that skips the whole image but its corner."""
    t.module("first").stride = (8, 8)


@fault("cnn", "{middle}", "{norm}")
def padding_of_a_large_constant(t: Training) -> None:
    """Borders filled with the number that stands for white in another scale."""

    def forward(self, old, x: Tensor) -> Tensor:
        padded = nn.functional.pad(x, (1, 1, 1, 1), value=255.0)
        return nn.functional.conv2d(padded, self.weight, stride=self.stride)

    change_class(t.module("middle"), forward)
