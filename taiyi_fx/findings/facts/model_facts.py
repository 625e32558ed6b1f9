"""All that is known of a model beside its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from taiyi_fx.findings.facts.attributes import Attributes, attributes_of
from taiyi_fx.findings.facts.of_layers import LayerSettings, settings_of
from taiyi_fx.findings.facts.of_model import (
    batch_axes_of,
    evaluates,
    frozen_adapters_of,
    frozen_of,
    hooks_of,
    idle_switches_of,
    repeated_in,
    same_masks_in,
)
from taiyi_fx.findings.facts.source.slip import Slip


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a model as it is now; of a run without its model, none.

    Attributes:
        attributes: The class of each module, its settings, and which parameters it has.
        settings: The settings of dropouts and norms, by the module's name.
        hooks: The names of the forward hooks of each module that has any.
        evaluates: The class of a module that acts otherwise in training, if the whole model is in
            evaluation mode now; else empty.
        frozen: The modules with parameters of which none is to be trained now.
        idle_switches: The attributes of modules and parameters that are named as if they froze or
            trained something, and do nothing, by the name of either.
        frozen_adapters: The modules with parameters of adapters, if none of these are trained
            though others of the model's are.
        batch_axes: The axis that each layer which may take another takes for that of the batch.
        repeated: The number of entries of each list of modules that are one module with parameters.
        same_masks: The number of modules of one class whose masks of features are the same, by the
            first of them.
        slips: The calls in the source of modules' classes that do not what they seem to, by the
            name of the first module of each class.
    """

    attributes: Mapping[str, Attributes] = field(default_factory=dict)
    settings: Mapping[str, LayerSettings] = field(default_factory=dict)
    hooks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    evaluates: str = ""
    frozen: frozenset[str] = frozenset()
    idle_switches: Mapping[str, str] = field(default_factory=dict)
    frozen_adapters: Sequence[str] = ()
    batch_axes: Mapping[str, int] = field(default_factory=dict)
    repeated: Mapping[str, int] = field(default_factory=dict)
    same_masks: Mapping[str, int] = field(default_factory=dict)
    slips: Mapping[str, Sequence[Slip]] = field(default_factory=dict)

    @property
    def has_dropout(self) -> bool:
        """True if a dropout of the model drops anything."""
        return any(one.drops > 0 for one in self.settings.values())

    @staticmethod
    def of(modules: Mapping[str, Any], slips: Mapping[str, Sequence[Slip]]) -> ModelFacts:
        """The facts about a model.

        Args:
            modules: The modules by name. A run is read without torch, hence `Any`.
            slips: Those in its source, which is read but once.
        """
        return ModelFacts(
            attributes=attributes_of(modules),
            settings=settings_of(modules),
            hooks=hooks_of(modules),
            evaluates=evaluates(modules),
            frozen=frozen_of(modules),
            idle_switches=idle_switches_of(modules),
            frozen_adapters=frozen_adapters_of(modules),
            batch_axes=batch_axes_of(modules),
            repeated=repeated_in(modules),
            same_masks=same_masks_in(modules),
            slips=slips,
        )
