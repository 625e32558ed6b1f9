"""All that is known of the optimizers of a model beside its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from taiyi_fx.findings.facts.of_optimizer import (
    GroupSettings,
    decays_of,
    group_settings_of,
    groups_of,
    hidden_in,
    left_out_of,
    shared_state_of,
    shrinkage_of,
    step_counts_of,
    undecaying_moments_of,
)


@dataclass(frozen=True)
class OptimizerFacts:
    """Facts about the optimizers that train a model, whose groups are counted through.

    Attributes:
        group_settings: The settings of each group.
        groups: The number of the group that each module's parameters are in, and its learning rate;
            of modules in one group alone.
        decays: The weight decay of the group that each module's parameters are in.
        shrinkage: The share of each module's parameters that weight decay takes away at a step, for
            a learning rate of 1; of modules in one group whose optimizer is known to do so.
        undecaying_moments: The format of second moments that cannot make them smaller, and the
            factor by which they would be made so at each step, by the module's name.
        step_counts: The steps that the optimizer itself counts of each module's weight.
        left_out: The modules with parameters that want a gradient and that no optimizer has; empty
            where none is known.
        strangers: The number of the optimizers' parameters that are not the model's.
        hidden: The number of modules in each list of Python that gradients reach and no optimizer
            has, by the module that keeps the list and the name of its attribute.
        shared_state: The name of what the optimizer keeps in the memory of a gradient, by module.
    """

    group_settings: Sequence[GroupSettings] = ()
    groups: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    decays: Mapping[str, float] = field(default_factory=dict)
    shrinkage: Mapping[str, float] = field(default_factory=dict)
    undecaying_moments: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    step_counts: Mapping[str, int] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    strangers: int = 0
    hidden: Mapping[tuple[str, str], int] = field(default_factory=dict)
    shared_state: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(modules: Mapping[str, Any], optimizers: Sequence[Any]) -> OptimizerFacts:
        """The facts about some optimizers.

        Args:
            modules: The model's modules by name. A run is read without torch, hence `Any`.
            optimizers: Those that train the model.
        """
        left_out, strangers = left_out_of(modules, optimizers)
        return OptimizerFacts(
            group_settings=group_settings_of(modules, optimizers),
            groups=groups_of(modules, optimizers),
            decays=decays_of(modules, optimizers),
            shrinkage=shrinkage_of(modules, optimizers),
            undecaying_moments=undecaying_moments_of(modules, optimizers),
            step_counts=step_counts_of(modules, optimizers),
            left_out=left_out,
            strangers=strangers,
            hidden=hidden_in(modules, optimizers),
            shared_state=shared_state_of(modules, optimizers),
        )
