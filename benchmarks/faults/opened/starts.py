"""Layers that begin with wrong weights."""

from __future__ import annotations

from torch import nn

from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


@fault("mlp cnn gan", "{late}", "{late_act}")
def drawn_from_zero_to_one(t: Training) -> None:
    """A layer whose weights `nn.init.uniform_` drew with the bounds that it has by default."""
    nn.init.uniform_(t.module("late").weight)


@fault("gpt gan", "{early}")
def one_unit_in_other_units(t: Training) -> None:
    """A layer of which one unit's row was converted from another format without its scale."""
    t.module("early").weight.data[3] *= 1000


@fault("cnn gpt resnet", "{norm}")
def gain_and_offset_exchanged(t: Training) -> None:
    """A norm whose two parameters were loaded in the wrong order: it gives ones, whatever comes."""
    nn.init.zeros_(t.module("norm").weight)
    nn.init.ones_(t.module("norm").bias)


@fault("gpt-tied", "words", "head", kinds="wild_start")
def embedding_of_unit_variance(t: Training) -> None:
    """The embedding as torch draws it, which is far too large for the head that shares it."""
    nn.init.normal_(t.module("first").weight)


@fault("mobile", "blocks.3.se.*")
def gate_of_a_squeeze_that_is_shut(t: Training) -> None:
    """A bias so far below zero that the gate lets no channel through, nor any gradient."""
    nn.init.constant_(t.model.get_parameter("blocks.3.se.expand.bias"), -10.0)


@fault("levit", "blocks.4.*")
def biases_of_distances_that_decide_all(t: Training) -> None:
    """Biases of attention so large that queries and keys have no say."""
    nn.init.normal_(t.model.get_parameter("blocks.4.biases"), std=40.0)


@fault("gan", "discriminator.4")
def judge_that_is_sure_before_it_has_seen(t: Training) -> None:
    """A discriminator whose last bias says that all is false."""
    nn.init.constant_(t.model.get_parameter("discriminator.4.bias"), -20.0)


@fault("gpt", "norm", "head", kinds="wild_start")
def gain_of_the_last_norm_of_50(t: Training) -> None:
    """A last norm that makes logits far too large."""
    nn.init.constant_(t.model.get_parameter("norm.weight"), 50.0)
