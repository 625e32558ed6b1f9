"""Faults of layers: ways round, activations, dropout, and the weights that they begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.asked.small_tasks import regression
from benchmarks.faults.training import Training


@fault("gpt", "layers*", WHOLE, kinds="residual|skip|shortcut|grow|vanish|loss|slow|large|norm")
def attention_added_to_itself(t: Training) -> None:
    """Writes x = x + x behind the attention, whose output x is already."""

    def forward(block: Any, _: Any, x: Tensor) -> Tensor:
        x = block.attn(block.norm1(x))
        x = x + x
        return x + block.mlp(block.norm2(x))

    for block in t.model.get_submodule("layers").children():
        change_class(block, forward)


@fault("resnet", "layers*", WHOLE, kinds="residual|skip|shortcut|vanish|loss|slow|gradient|zero")
def blocks_without_their_way_round(t: Training) -> None:
    """Keeps the input of a block for the sum at its end, and does not add it."""

    def forward(block: Any, _: Any, x: Tensor) -> Tensor:
        return block.act2(block.bn2(block.conv2(block.act1(block.bn1(block.conv1(x))))))

    for block in t.model.get_submodule("layers").children():
        nn.init.ones_(block.get_submodule("bn2").get_parameter("weight"))
        change_class(block, forward)


@fault("gpt", "layers.0*", "layers.1*", "layers.2*", kinds="unused|gradient|update|zero|dead")
def outputs_that_the_loop_forgets(t: Training) -> None:
    """Calls each block with the embedding, and keeps what the last one gives."""

    def forward(model: Any, _: Any, ids: Tensor) -> Tensor:
        x = model.words(ids) + model.places(torch.arange(ids.shape[1]))
        out = x
        for layer in model.layers:
            out = layer(x)
        return model.head(model.norm(out))

    change_class(t.model, forward)


@fault("gpt", "places", WHOLE, kinds="unused|gradient|update|position|param|zero")
def positions_that_are_not_added(t: Training) -> None:
    """Makes the embedding of positions, and does not use it."""

    def forward(model: Any, _: Any, ids: Tensor) -> Tensor:
        x = model.words(ids)
        for layer in model.layers:
            x = layer(x)
        return model.head(model.norm(x))

    change_class(t.model, forward)


@fault("gpt", "words", "places", kinds="gradient|update|detach|zero|frozen|embedding")
def positions_added_without_gradient(t: Training) -> None:
    """Adds constant positions under no_grad, which cuts the embedding of words off, too."""

    def forward(model: Any, _: Any, ids: Tensor) -> Tensor:
        with torch.no_grad():
            x = model.words(ids) + model.places(torch.arange(ids.shape[1]))
        for layer in model.layers:
            x = layer(x)
        return model.head(model.norm(x))

    change_class(t.model, forward)


def _initialise(t: Training, draw: Callable[[Tensor], object]) -> None:
    """Draws all weights anew."""
    for parameter in t.model.parameters():
        if parameter.dim() > 1:
            draw(parameter)


@fault("mlp mlp-tanh", "layers*", WHOLE, kinds="init|large|explod|saturat|diverg|loss|grow")
def weights_of_unit_variance(t: Training) -> None:
    """Draws all weights from N(0, 1)."""
    _initialise(t, nn.init.normal_)


@fault("mlp", "layers*", WHOLE, kinds="init|small|vanish|slow|plateau|gradient|loss")
def weights_of_a_hundredth(t: Training) -> None:
    """Draws all weights with a deviation of 0.01, which the example had for its images."""
    _initialise(t, lambda weight: nn.init.normal_(weight, std=0.01))


@fault("mlp", "layers*", WHOLE, kinds="init|zero|dead|vanish|gradient|symmetr|update|plateau")
def weights_that_begin_at_zero(t: Training) -> None:
    """Initialises all weights with zeros."""
    _initialise(t, nn.init.zeros_)


@fault("mlp", "layers*", WHOLE, kinds="init|symmetr|rank|same|collapse|plateau|dead")
def weights_all_alike(t: Training) -> None:
    """Initialises all weights of a layer with one number, so that its units stay alike."""
    _initialise(t, lambda weight: nn.init.constant_(weight, 1 / weight.shape[1]))


@fault("mlp", "layers*", WHOLE, kinds="vanish|saturat|sigmoid|slow|plateau|gradient|small")
def sigmoids_in_a_deep_network(t: Training) -> None:
    """Takes sigmoids for all activations of a deep network."""
    for layer in t.model.get_submodule("layers").children():
        layer.add_module("act", nn.Sigmoid())


@fault("mlp", WHOLE, "*", kinds="linear|activation|plateau|loss|underfit|rank|capacity")
def activations_that_were_forgotten(t: Training) -> None:
    """Has linear layers one behind the other, with nothing in between."""
    regression(t, act=nn.Identity)


@fault("mlp cnn", "*drop", WHOLE, kinds="dropout|noise|loss|plateau|slow|zero|underfit")
def share_that_is_kept(t: Training) -> None:
    """Passes the share that is to be kept where the share that is dropped belongs."""
    for module in t.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.9


@fault("resnet", "*bn*", WHOLE, kinds="norm|batch|noise|small|unstable|sample|statist|loss")
def norms_of_single_samples(t: Training) -> None:
    """Trains a network with batch norms by batches of one."""
    t.change_batch(lambda step, x, y: (x[:1], y[:1]))
    t.steps = 150
