"""The numbers that rules look at: all scalar series of a run, module by module."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.facts.chain import InRole, passed_back
from taiyi_fx.findings.facts.flow import Flow
from taiyi_fx.findings.facts.given_inputs import GivenInputs
from taiyi_fx.findings.facts.logged import Logged, is_evaluated, is_metric
from taiyi_fx.findings.facts.loss_facts import LossFacts
from taiyi_fx.findings.facts.model_facts import ModelFacts
from taiyi_fx.findings.facts.not_finite import MadeBy, NotFinite
from taiyi_fx.findings.facts.optimizer_facts import OptimizerFacts
from taiyi_fx.findings.facts.parameters import Parameters
from taiyi_fx.findings.facts.places import in_order
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Steps, Watched, at_common_steps, grouped

if TYPE_CHECKING:  # a run is read without torch, which takes a second to import
    from taiyi_fx.records.record import Records, Series

Reasons: TypeAlias = "Mapping[tuple[str, str], str]"
"""The reason for each missing series, by module and quantity, as `Monitor.missing` has them."""


_FEW = 32
"""Steps by which only what is wrong from the first one on can be seen."""
_MANY = 16
"""Steps in a row with a number of evaluation mode: no evaluation is made so often."""


@dataclass(frozen=True)
class Evidence:
    """All scalar series of a training, in the order of the model's modules.

    Attributes:
        series: The series of forwards in training, and of what was logged.
        evaluated: The series of what was logged in evaluation mode.
        reasons: The reasons for series that have no values.
        model: What is known of the model.
        optimizer: What is known of its optimizers.
        flow: What comes before each module.
        of_losses: What is known of each loss, by its name.
        inputs: The numbers that the model itself is given, in training and evaluation.
        forwards_per_step: The number of training forwards of one step; 0 if it is not known.
        not_finite: The modules that were not finite as the first NaN or Inf was seen, by step.
        run_again: The operation that made it, by step, where the step was run again.
    """

    series: tuple[Watched, ...]
    reasons: Reasons = field(default_factory=dict)
    evaluated: tuple[Watched, ...] = ()
    model: ModelFacts = field(default_factory=ModelFacts)
    optimizer: OptimizerFacts = field(default_factory=OptimizerFacts)
    flow: Flow = field(default_factory=Flow)
    of_losses: Mapping[str, LossFacts] = field(default_factory=dict)
    inputs: GivenInputs = field(default_factory=GivenInputs)
    forwards_per_step: int = 0
    not_finite: Mapping[int, NotFinite] = field(default_factory=dict)
    run_again: Mapping[int, MadeBy] = field(default_factory=dict)

    @staticmethod
    def of(series: Iterable[Watched], reasons: Reasons | None = None) -> Evidence:
        """The evidence in some series; empty ones are left out.

        Of those of evaluation mode what was logged counts alone; where it is logged at each step,
        and nothing is of training mode any more, the model is trained in evaluation mode.
        """
        known = [one for one in series if len(one.steps)]
        trained = {(one.module, one.quantity): one for one in known if one.mode == "train"}
        evaluated = list[Watched]()
        ends = (int(s.steps[-1]) for s in trained.values() if s.direction in ("forward", ""))
        last = max(ends, default=-1)
        for one in known:
            if one.mode == "train" or not one.is_logged:
                continue
            if _is_of_training(one, last):
                own = trained.get((one.module, one.quantity))
                trained[one.module, one.quantity] = one.behind(own)
            else:
                evaluated.append(one)
        return Evidence(tuple(trained.values()), reasons or {}, tuple(evaluated))

    def with_series(self, series: Iterable[Watched]) -> Evidence:
        """The same with other series; empty ones are left out."""
        return replace(self, series=tuple(one for one in series if len(one.steps)))

    def without_skipped(self, steps: Collection[int]) -> Evidence:
        """All numbers but gradients and updates of steps that were skipped."""
        skipped = np.array(sorted(steps))
        return self.with_series(_without(one, skipped) for one in self.series) if steps else self

    def before(self, step: int) -> Evidence:
        """The numbers before a step."""
        evaluated = tuple(one.before(step) for one in self.evaluated)
        earlier = replace(self, evaluated=tuple(one for one in evaluated if len(one.steps)))
        return earlier.with_series(one.before(step) for one in self.series)

    @staticmethod
    def of_records(
        records: Records,
        describe: Callable[[Series], tuple[str, str, str]],
        reasons: Reasons | None = None,
    ) -> Evidence:
        """The evidence in what a monitor recorded.

        Args:
            records: The records.
            describe: Takes a series to its direction, its rule of health and its unit.
            reasons: The reasons for missing series.
        """
        found: dict[tuple[Series, str], tuple[list[int], list[float]]] = {}
        for block in records.blocks():
            for name, value in zip(block.series, block.values, strict=True):
                if block.mode != "train" and name[0]:
                    continue  # of evaluation, what was logged counts alone
                steps, values = found.setdefault((name, block.mode), ([], []))
                steps.append(block.step)
                values.append(float(value))
        every = (
            Watched.made(name, describe(name), np.array(steps), np.array(values), mode)
            for (name, mode), (steps, values) in found.items()
        )
        return Evidence.of(every, reasons)

    def is_behind(self, module: str, before: str) -> bool:
        """False if nothing of what a module is given comes from another one.

        Asked of what is to be told, as it walks the outline; true where that does not show it.
        """
        is_shown = bool(self.flow.modules_before(module, self.called))
        return not is_shown or bool(self.flow.modules_before(module, {before}))

    def made_by(self, module: str) -> str:
        """The functions that make what a module is given, as the end of a sentence."""
        named, many = self.operations_before(module), len({*self.flow.before_module(module)}) > 1
        return f"; {named} between them make{'s' * (not many)} it" if named else ""

    def operations_before(self, module: str) -> str:
        """The functions that make what a module is given, in words; empty if there are none."""
        names = [*dict.fromkeys(self.flow.before_module(module))]
        return f"the operation{'s' * (len(names) > 1)} {listed(names)}" if names else ""

    @functools.cached_property
    def parameters(self) -> Parameters:
        """The model's parameters."""
        return Parameters(self.of_quantity, self.of_each, self.modules, self.model)

    @property
    def logged(self) -> Logged:
        """The numbers that users log."""
        return Logged(self.series, self.evaluated, self.of_losses)

    @functools.cached_property
    def modules(self) -> dict[str, int]:
        """The place of each module in the order of execution; else of the model's definition."""
        names = in_order(dict.fromkeys(s.module for s in self.series), self.flow.order)
        return {name: i for i, name in enumerate(names)}

    @property
    def extent(self) -> str:
        """The number of series, modules and steps, in words; empty if there are none."""
        if not self.series:
            return ""
        modules = len({one.module for one in self.series} - {""})
        of = f"{modules} module{'s' * (modules != 1)}" if modules else "the model"
        few = self.last_step - self.first_step + 1 < _FEW
        text = f"{len(self.series)} series of {of}, steps {self.first_step} to {self.last_step}"
        return f"{text}, fewer than most rules need" if few else text

    @functools.cached_property
    def kinds(self) -> dict[str, Hashable]:
        """The class of each module; where it is not known, its quantities: of one class they are
        the same.
        """
        found: dict[str, set[str]] = {}
        for one in self.series:
            found.setdefault(one.module, set()).add(one.quantity)
        known = {one.module: self.model.attributes.get(one.name) for one in self.series}
        return {
            module: own.kind if (own := known[module]) else frozenset(quantities)
            for module, quantities in found.items()
        }

    @functools.cached_property
    def _by_quantity(self) -> dict[str, list[Watched]]:
        return grouped(self.series, lambda one: one.quantity)

    def of_quantity(self, *quantities: str) -> Iterator[Watched]:
        """The series of some quantities, in the order of the model.

        An output is one of what its module does last: it comes behind those of modules within.
        """
        if quantities not in self._in_order:
            found = [one for name in quantities for one in self._by_quantity.get(name, ())]
            ends = {name: name.startswith("Output") for name in quantities}
            found.sort(key=lambda one: self.place(one.module, at_end=ends[one.quantity]))
            self._in_order[quantities] = found
        return iter(self._in_order[quantities])

    def by_module(self, quantity: str) -> dict[str, Watched]:
        """The series of a quantity by module, in the order of the model."""
        return {one.module: one for one in self.of_quantity(quantity)}

    @functools.cached_property
    def _in_order(self) -> dict[tuple[str, ...], list[Watched]]:
        """The series of quantities that were asked for, as most are by several rules."""
        return {}

    def place(self, module: str, *, at_end: bool) -> tuple[int, int]:
        """The place of what a module is given, or returns, in the order of the model."""
        place = self.modules[module]
        return (self._ends[module], -place) if at_end else (place, 0)

    @functools.cached_property
    def _ends(self) -> dict[str, int]:
        """The place of the last module within each, which is its own if there is none."""
        ends = dict(self.modules)
        for module, place in self.modules.items():
            parts = module.split(".")
            for around in ("", *(".".join(parts[:i]) for i in range(1, len(parts)))):
                if around in ends:
                    ends[around] = max(ends[around], place)
        return ends

    @functools.cached_property
    def gains(self) -> list[InRole]:
        """The factors by which modules pass gradients back, from the last on."""
        return [*passed_back([*self.of_quantity("OutputGradRMS")][::-1], self.in_branches)]

    @functools.cached_property
    def in_branches(self) -> frozenset[str]:
        """The modules of branches that began at nothing, behind a last weight of zero.

        No gradient passes such a weight at the first step, and little as long as it is small.
        """
        if not self.parameters.beginning_at_zero:
            return frozenset()
        gradients = self.of_quantity("OutputGradRMS")
        return frozenset(s.module for s in gradients if s.values[0] == 0 and s.values.any())

    def of_each(self, quantity: str) -> Iterator[Watched]:
        """The series of a quantity that has one for each parameter: ``"UpdateRatio.weight"``."""
        parts = [name for name in self._by_quantity if name.startswith(f"{quantity}.")]
        return self.of_quantity(*parts)

    @property
    def steps_of_weights(self) -> list[Watched]:
        """The sizes of weights' steps beside the weights."""
        return [s for s in self.of_each("UpdateRatio") if "weight" in s.quantity]

    @property
    def rates(self) -> list[Watched]:
        """The learning rates, of all groups or of each."""
        return [*self.of_quantity("LearningRate"), *self.of_each("LearningRate")]

    @functools.cached_property
    def bad(self) -> list[tuple[Watched, NDArray[np.bool_]]]:
        """The series with a NaN or Inf, each with the mask of these.

        Of logged numbers, losses of training alone: a metric may have no value for some batches.
        """
        known = (one for one in self.series if not (is_metric(one) or is_evaluated(one)))
        return [(one, mask) for one in known if (mask := one.is_bad).any()]

    @functools.cached_property
    def called(self) -> frozenset[str]:
        """The modules of which forwards in training were read."""
        return frozenset(s.module for s in self.series if s.direction == "forward")

    @functools.cached_property
    def fitted(self) -> frozenset[str]:
        """The modules that LBFGS trains: by a closure that it calls several times in a step."""
        every = (group for group in self.optimizer.group_settings if group.rule == "lbfgs")
        return frozenset(module for group in every for module in group.modules)

    @functools.cached_property
    def norms(self) -> frozenset[str]:
        """The modules that return the size of their gain, whatever they are given.

        A module counts if most of its role do: of next to nothing, a norm returns less.
        """
        gains = self.by_module("ParameterRMS.weight")
        given = {s.module for s in self.of_quantity("InputRMS")}
        known = [s for s in self.of_quantity("OutputRMS") if s.module in given & gains.keys()]
        is_norm: dict[str, list[bool]] = {}
        for s in known:
            is_one = is_near(median(s.values), median(gains[s.module].values))
            is_norm.setdefault(s.role, []).append(is_one and self.parameters.is_vector(s.module))
        return frozenset(s.module for s in known if median(is_norm[s.role]) > 0)

    @functools.cached_property
    def handed_on(self) -> list[tuple[Watched, Watched]]:
        """Each output that is just what the next module is given, and the size of that."""
        given = self.by_module("InputRMS")
        pairs = pairwise(self.of_quantity("OutputRMS"))
        known = ((before, given[one.module]) for before, one in pairs if one.module in given)
        return [pair for pair in known if _is_same(*pair)]

    @functools.cached_property
    def before_norms(self) -> frozenset[str]:
        """The modules that return just what the next norm is given, which divides their size away.

        So the larger a step makes their weight, the smaller its next ones are beside it.
        """
        return frozenset(one.module for one, own in self.handed_on if own.module in self.norms)

    @functools.cached_property
    def returning_biases(self) -> frozenset[str]:
        """The modules that return their bias and hardly more, as a head that begins with a prior.

        As those of detectors, whose biases of -4.6 or -2.19 say that objects are rare.
        """
        biases = self.by_module("ParameterRMS.bias")
        return frozenset(
            s.module
            for s in self.of_quantity("OutputRMS")
            if s.name in biases and np.isclose(s.values[0], biases[s.name].values[0], rtol=0.02)
        )

    @functools.cached_property
    def is_from_the_start(self) -> bool:
        """True if the first steps are known; false for a window of later ones."""
        return self.first_step == 0

    @functools.cached_property
    def first_step(self) -> int:
        """The earliest step."""
        return min((int(s.steps[0]) for s in self.series), default=0)

    @functools.cached_property
    def last_step(self) -> int:
        """The latest step."""
        return max((int(s.steps[-1]) for s in self.series), default=0)


def _is_of_training(evaluated: Watched, last: int) -> bool:
    """True for numbers of evaluation mode at many steps in a row, after the last of training mode.

    Of a long training not all are known.
    """
    in_a_row = int((np.diff(evaluated.steps) == 1).sum())
    return in_a_row >= _MANY and bool(last <= evaluated.steps[0])


def listed(functions: Sequence[str]) -> str:
    """The names of functions in a sentence."""
    names = [f"`{name}`" for name in functions]
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def is_near(size: float, gain: float) -> bool:
    """True if an output is of the size of a parameter, as that of a norm or an embedding is."""
    return 0.8 * gain < size < 1.25 * gain


def _is_same(returned: Watched, given: Watched) -> bool:
    returned, given = at_common_steps([returned, given])
    is_near = np.allclose(given.values, returned.values, rtol=1e-5, atol=0)
    return len(given.steps) > 0 and is_near


def _without(one: Watched, skipped: Steps) -> Watched:
    if one.direction == "parameter" and one.unit == "ratio":
        return one.at(~is_update_of(one, skipped))
    return one if one.direction in ("forward", "") else one.at(~np.isin(one.steps, skipped))


def is_update_of(one: Watched, steps: Steps) -> NDArray[np.bool_]:
    """A mask of a series of updates: those made at some steps.

    An update is the step from the number before: that of a step is recorded at the next.
    """
    after = np.searchsorted(one.steps, steps, side="right")
    mask = np.zeros(len(one.steps), bool)
    mask[after[after < len(mask)]] = True
    return mask
