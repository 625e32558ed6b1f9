"""The parameters of a model, as the series of a training tell of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from taiyi_fx.findings.facts.model_facts import ModelFacts
from taiyi_fx.findings.facts.watched import Watched

_SCALE = 1e-3
"""The size at which gains of branches begin that are to be nothing at first: 1e-4 to 1e-6."""


class Parameters:
    """The series of parameters, and how large these are.

    Args:
        of_quantity: Gives the series of some quantities.
        of_each: Gives those of a quantity that has one for each parameter.
        places: The place of each module in the order of the model.
        model: What is known of the model.
    """

    def __init__(
        self,
        of_quantity: Callable[..., Iterable[Watched]],
        of_each: Callable[[str], Iterable[Watched]],
        places: Mapping[str, int],
        model: ModelFacts,
    ) -> None:
        self._of_quantity, self._of_each = of_quantity, of_each
        self._places, self._model = places, model

    @functools.cached_property
    def weights(self) -> dict[str, Watched]:
        """The norm of each module's weight, by module, in the order of the model."""
        return self._one_of_each("WeightNorm", "ParameterNorm.weight")

    @functools.cached_property
    def weight_gradients(self) -> dict[str, Watched]:
        """The norm of the gradient of each module's weight, likewise."""
        return self._one_of_each("WeightGradNorm", "ParameterGradNorm.weight")

    def _one_of_each(self, *quantities: str) -> dict[str, Watched]:
        found: dict[str, Watched] = {}
        # Of a recurrent layer, or attention, the first weight: ``weight_ih_l0``; of a weight norm
        # the one that is trained, as its gain may be frozen.
        trained = {(s.module, parameter_of(s)) for s in self._of_each("ParameterGradNorm")}
        every = (
            s for s in self._of_each(quantities[-1].partition(".")[0]) if "weight" in s.quantity
        )
        own = sorted(every, key=lambda s: (s.module, parameter_of(s)) not in trained)
        for one in (*self._of_quantity(*quantities), *own):
            found.setdefault(one.module, one)
        return dict(sorted(found.items(), key=lambda item: self._places[item[0]]))

    @functools.cached_property
    def norms(self) -> dict[tuple[str, str], Watched]:
        """The norm of each parameter, by module and the parameter's name."""
        of_weights = {(s.module, "weight"): s for s in self._of_quantity("WeightNorm")}
        every = self._of_each("ParameterNorm")
        return of_weights | {(s.module, parameter_of(s)): s for s in every}

    @functools.cached_property
    def sizes(self) -> dict[tuple[str, str], Watched]:
        """The root of the mean square of each parameter, likewise."""
        return {(s.module, parameter_of(s)): s for s in self._of_each("ParameterRMS")}

    @functools.cached_property
    def counts(self) -> dict[tuple[str, str], float]:
        """The number of elements of each parameter, by module and name, where it is known."""
        found: dict[tuple[str, str], float] = {}
        norms = self.norms
        for name, s in self.sizes.items():
            if name in norms and s.values[0] > 0:
                found[name] = float((norms[name].values[0] / s.values[0]) ** 2)
        return found

    def count_of(self, s: Watched) -> float:
        """The number of elements of the parameter that a series is of; 0 if it is not known."""
        return self.counts.get((s.module, parameter_of(s) or "weight"), 0.0)

    def is_vector(self, module: str) -> bool:
        """True for a weight of few elements beside the largest, as no matrix or embedding has.

        Nor has it several axes, as the kernels of a convolution by channels have, be they few.
        """
        counts = self.counts
        largest = max(counts.values(), default=0.0)
        is_small = counts.get((module, "weight"), 0.0) <= 1.01 * np.sqrt(largest)
        own = self._model.attributes.get(module.partition("@")[0])
        shapes = [shape for name, shape in own.sizes if not name] if own else []
        return bool(is_small and all(sum(n > 1 for n in shape) < 2 for shape in shapes))

    def began_at_zero(self, module: str) -> bool:
        """True if a module's weight was zero at first: its steps are of any size beside it."""
        size = self.weights.get(module)
        return size is not None and len(size.values) > 0 and size.values[0] == 0

    @functools.cached_property
    def beginning_at_zero(self) -> frozenset[str]:
        """The modules whose weight was zero at first."""
        return frozenset(module for module in self.weights if self.began_at_zero(module))

    @functools.cached_property
    def has_layer_scales(self) -> bool:
        """True for branches that begin at next to nothing, behind gains of 1e-3 at most.

        As of CaiT, ConvNeXt and many since (arXiv 2103.17239): what lies in them has next to no
        gradient at first, and so has all that only they lead to.
        """
        return any(
            0 < s.values[0] <= _SCALE and "bias" not in s.quantity and self._is_gain(s)
            for s in self._of_each("ParameterRMS")
        )

    def _is_gain(self, s: Watched) -> bool:
        largest = max(self.counts.values(), default=0.0)
        return 0 < self.count_of(s) <= 1.01 * np.sqrt(largest)


def parameter_of(s: Watched) -> str:
    """The name of the parameter that a series is of, as of ``ParameterNorm.bias``."""
    return s.quantity.partition(".")[2]
