"""Groups, frozen layers and averages of weights: what an optimizer is not told."""

from __future__ import annotations

import torch

from benchmarks.faults.changes import give_group, rate, set_all
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training

_STALL = "small_steps|plateau|no_update|stopped"
_BLOWN_UP = "large_steps|divergence|loss_spike|odd_rate"


@fault("mlp-tanh", "layers.*", WHOLE, kinds=_BLOWN_UP)
def biases_with_a_rate_of_their_own(t: Training) -> None:
    """A multiple of the rate for biases, 400 in place of 2."""
    biases = [p for name, p in t.model.named_parameters() if name.endswith("bias")]
    own = {id(parameter) for parameter in biases}
    group = t.optimizer.param_groups[0]
    group["params"] = [p for p in group["params"] if id(p) not in own]
    t.optimizer.add_param_group({"params": biases, "lr": 400 * rate(t)})


@fault("lstm", "{first}", kinds="odd_rate")
def embedding_with_the_rate_of_sgd(t: Training) -> None:
    """A group for embeddings that was copied from a training by another optimizer."""
    give_group(t, t.module("first"), lr=1.0)


@fault("mlp", "layers.0*", "layers.1*", "layers.2*", kinds="no_update")
def unfrozen_but_not_in_the_optimizer(t: Training) -> None:
    """Layers that are unfrozen at step 30, for an optimizer that was made without them."""
    layers = [*t.model.get_submodule("layers").children()][:3]
    for layer in layers:
        layer.requires_grad_(False)
    set_all(t, params=[p for p in t.model.parameters() if p.requires_grad])
    t.at(30, lambda: [layer.requires_grad_(True) for layer in layers])


@fault("mlp cnn", "layers.*", WHOLE, kinds="plateau")
def backbone_frozen_before_it_was_loaded(t: Training) -> None:
    """All but the head frozen, of a model that nobody has trained."""
    t.model.requires_grad_(False)
    t.module("last").requires_grad_(True)
    set_all(t, params=[*t.module("last").parameters()])


@fault("cnn lstm", WHOLE, kinds=_STALL + "|drift")
def average_that_is_never_taken_out_again(t: Training) -> None:
    """An average of all weights that is put in for an evaluation after each step, and stays."""
    average = [parameter.detach().clone() for parameter in t.model.parameters()]

    @torch.no_grad()
    def put_in() -> None:
        for kept, parameter in zip(average, t.model.parameters(), strict=True):
            parameter.copy_(kept.lerp_(parameter, 1e-3))

    t.each_step(put_in)


@fault("mlp lstm", WHOLE, kinds="weight_jump|loss_spike")
def average_of_zeros_left_in(t: Training) -> None:
    """An average that began at zero, and is left in the model after an evaluation at step 40."""
    average = [torch.zeros_like(parameter) for parameter in t.model.parameters()]
    t.each_step(
        lambda: [a.lerp_(p.data, 0.01) for a, p in zip(average, t.model.parameters(), strict=True)]
    )
    t.at(40, lambda: [p.data.copy_(a) for a, p in zip(average, t.model.parameters(), strict=True)])


@fault("mlp", "{late}", kinds="no_update")
def layer_lost_from_its_group(t: Training) -> None:
    """A group that is made anew at step 20, by a filter that forgets one layer."""
    own = {id(parameter) for parameter in t.module("late").parameters()}
    group = t.optimizer.param_groups[0]
    t.at(20, lambda: group.update(params=[p for p in group["params"] if id(p) not in own]))
