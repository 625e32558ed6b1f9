"""Weights that are loaded in part, into wrong places, or from what was left over."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.faults.changes import rate, set_all
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.edits import attentions, train_before
from benchmarks.faults.tasks import build
from benchmarks.faults.training import Training

_JUMP = "weight_jump|loss_spike"


@fault("mlp gan", "{square}", kinds=_JUMP)
def weight_transposed_at_step_55(t: Training) -> None:
    """A square weight that comes back from a conversion with its axes exchanged."""
    part = "early" if t.names["first"] == "words" else "late"
    t.names = {**t.names, "square": t.names[part]}
    weight = t.module("square").weight.data
    t.at(55, lambda: weight.copy_(weight.mT.clone()))


@fault("cnn", "{kernel}", kinds=_JUMP)
def kernels_turned_by_a_conversion(t: Training) -> None:
    """A convolution whose inputs and outputs, height and width are all exchanged at step 60."""
    name = "layers.3.conv" if "layers.2.conv" in t.names.values() else "layers.0.conv1"
    t.names = {**t.names, "kernel": name}
    weight = t.module("kernel").weight.data
    t.at(60, lambda: weight.copy_(4 * weight.permute(1, 0, 3, 2).flip(2, 3)))


@torch.no_grad()
def _initialise(modules: list[nn.Module]) -> None:
    for module in modules:
        for part in module.modules():
            if isinstance(part, nn.Linear | nn.Conv2d | nn.BatchNorm2d | nn.LayerNorm):
                part.reset_parameters()


@fault("mlp", "layers.2*", "layers.3*", "layers.4*", "head", WHOLE, kinds=_JUMP)
def loaded_with_names_that_do_not_fit(t: Training) -> None:
    """A resumption at step 60 that finds the first names alone, and passes over the rest."""
    layers = [*t.model.get_submodule("layers").children()]
    t.at(60, lambda: _initialise([*layers[2:], t.module("last")]))


@fault("mlp", "layers.*", WHOLE, kinds=_JUMP)
def all_layers_loaded_from_one(t: Training) -> None:
    """A loop whose number is read too late: at step 50 all layers get the last one's weights."""
    layers = [*t.model.get_submodule("layers").children()]
    last = layers[-1].state_dict()
    t.at(50, lambda: [layer.load_state_dict(last) for layer in layers[1:]])


@fault("gpt", "layers.*.attn*", kinds=_JUMP)
def heads_laid_out_in_another_way(t: Training) -> None:
    """Queries, keys and values by head, read as heads by queries, keys and values at step 60."""

    def convert() -> None:
        for name in attentions(t):
            weight = t.model.get_parameter(f"{name}.qkv.weight").data
            turned = weight.view(3, 4, 8, 32).transpose(0, 1).reshape(96, 32)
            weight.copy_(turned)

    t.at(60, convert)


@fault("mlp cnn", WHOLE, kinds=_JUMP)
def average_of_two_strangers(t: Training) -> None:
    """Weights averaged at step 60 with those of a model that began elsewhere."""
    other = build(type(t.model).__name__.lower(), seed=7)
    train_before(other, 60)

    @torch.no_grad()
    def average() -> None:
        for own, given in zip(t.model.parameters(), other.model.parameters(), strict=True):
            own.lerp_(given, 0.5)

    t.at(60, average)


@fault("mlp", WHOLE, "layers*", "{last}", kinds="wild_start|plateau|dead|saturat")
def weights_left_by_a_search_for_the_rate(t: Training) -> None:
    """A search for the largest rate, after which nobody put back the weights of before."""
    own = rate(t)
    for step in range(36):
        set_all(t, lr=1e-3 * 1.25**step)
        t.backward(t.model, *t.batch(20_000 + step))
        nn.utils.clip_grad_norm_(t.model.parameters(), 5.0)
        t.optimizer.step()
        t.optimizer.zero_grad()
    t.optimizer.state.clear()
    set_all(t, lr=own)


@fault("resnet", WHOLE, kinds=_JUMP)
def rounded_to_a_handful_of_values(t: Training) -> None:
    """Weights that are stored at step 60 with one scale for each, in three bits, and go on."""

    @torch.no_grad()
    def store() -> None:
        for parameter in t.model.parameters():
            scale = parameter.abs().max() / 1.4 + 1e-12
            parameter.copy_((parameter / scale).round() * scale)

    t.at(60, store)


@fault("lstm", "{first}", kinds=_JUMP)
def embedding_of_another_vocabulary(t: Training) -> None:
    """Rows of an embedding that stand for other words from step 50."""
    weight = t.module("first").weight.data
    t.at(50, lambda: weight.copy_(weight[torch.randperm(len(weight))].clone()))
