"""Statistics of parameters, their gradients and buffers, read at `track`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from taiyi_fx.passes.freed import FREED, LOW, address_of, is_freed
from taiyi_fx.passes.ir import (
    PARAMETER_PORTS,
    Numbers,
    Pick,
    Reading,
    Reduction,
    State,
    States,
    fast_path,
)
from taiyi_fx.passes.module_tree import parameters_of
from taiyi_fx.passes.probes.accumulate import refuse_classes
from taiyi_fx.passes.probes.dtensor import of_parameters
from taiyi_fx.passes.structure import computed_by, computed_text, is_computed, tensor_named
from taiyi_fx.quantities.declare import NoValue
from taiyi_fx.step.presence import GONE

Key = tuple[str, Reading]
"""A module's name, and a reading of its parameters or buffers."""

Vectors = tuple[States, Mapping[Key, int]]
"""Statistics of many parameters, and the row of each key."""

CLEARED = "; was track called after zero_grad()?"
"""The end of the reason for a gradient that is missing, where no parameter has one."""
_OWN = frozenset((nn.Parameter, Tensor))
_STRIDED = frozenset((torch.strided,))
_gradient_of, _layout_of = operator.attrgetter("grad"), operator.attrgetter("layout")
_parameters_of = operator.attrgetter("_parameters")


class ReadingUnavailable(NoValue):
    """A reading is not available; the message says why.

    Attributes:
        seen: True if a forward passed the site nevertheless.
        is_usual: True if that is so at some steps of every training, and no reason to warn.
    """

    def __init__(self, why: str, *, seen: bool = False, is_usual: bool = False) -> None:
        super().__init__(why)
        self.seen = seen
        self.is_usual = is_usual


class ParameterReadings(NamedTuple):
    """The parameters and buffers that one reduction reads.

    Attributes:
        reduction: The reduction.
        rows: Each key with its row; gradients come last.
        modules: The module of each.
        names: Its name there.
        first_gradient: The row of the first gradient.
        are_together: True if the reduction can measure many tensors by one call.
    """

    reduction: Any
    rows: Mapping[Key, int]
    modules: tuple[nn.Module, ...]
    names: tuple[Pick, ...]
    first_gradient: int
    are_together: bool

    def own_tensors(self) -> list[Tensor] | None:
        """All tensors, if each is an own parameter of its module, or the gradient of one.

        Nearly always they are, and looking up the hundreds of them has to be fast.
        """
        found: list[Any] = []
        try:
            found += map(dict.get, map(_parameters_of, self.modules), self.names)
            found[self.first_gradient :] = map(_gradient_of, found[self.first_gradient :])
        except (AttributeError, TypeError):  # no own parameter, or a ScriptModule's, held in C++
            return None
        is_usual = _OWN.issuperset(map(type, found)) and _STRIDED.issuperset(map(_layout_of, found))
        return found if is_usual and min(map(address_of, found), default=LOW) >= LOW else None


def parameter_readings(
    keys: Iterable[Key], modules: Mapping[str, nn.Module]
) -> tuple[ParameterReadings, ...]:
    """The readings of parameters and buffers, grouped by reduction."""
    found: dict[Any, list[Key]] = {}
    for key in sorted(dict.fromkeys(keys), key=lambda key: key[1].site.port == "parameter_grad"):
        if key[1].site.port in PARAMETER_PORTS:
            found.setdefault(key[1].reduction, []).append(key)
    return tuple(
        ParameterReadings(
            reduction,
            {key: row for row, key in enumerate(of)},
            tuple(modules[name] for name, _ in of),
            tuple(reading.site.pick for _, reading in of),
            sum(reading.site.port != "parameter_grad" for _, reading in of),
            fast_path(reduction, "measure_many") is not None,
        )
        for reduction, of in found.items()
    )


class ParameterStatistics:
    """The statistics of parameters and buffers in one step, on this rank.

    Args:
        modules: The model's, by name.
        members: The ranks whose readings are joined; None for this one alone.
        gone: The names of modules that the model no longer holds.

    Attributes:
        vectors: All statistics measured in one call of a reduction, by reduction.
    """

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        members: Sequence[int] | None,
        gone: Collection[str] = (),
    ) -> None:
        self._modules = modules
        self._members = members
        self._gone = gone
        self._found: dict[Key, State | Exception] = {}
        self.vectors: dict[Any, Vectors] = {}

    def measure(self, of: ParameterReadings) -> None:
        """Measures all tensors of a reduction, in one call if the reduction can do that."""
        can_together = of.are_together
        if can_together and not self._gone and (tensors := of.own_tensors()):
            self._measure_many(of.reduction, of.rows, tensors)
            return
        alone = [(key, found) for key in of.rows if (found := self._tensors(key))]
        single = [(key, found[0]) for key, found in alone if can_together and len(found) == 1]
        if single:
            rows = {key: row for row, (key, _) in enumerate(single)}
            self._measure_many(of.reduction, rows, [x for _, x in single])
            alone = [(key, found) for key, found in alone if key not in rows]
        for key, found in alone:
            self._measure(of.reduction, key, found)

    def of(self, key: Key) -> State | Numbers:
        """The statistic of one module.

        Raises:
            Exception: The error of the measurement.
        """
        if (vectors := self.vectors_with(key)) is not None:
            state, rows = vectors
            return tuple([part[rows[key]] for part in state])  # pyright: ignore[reportReturnType]
        found = self._found[key]
        if isinstance(found, Exception):
            raise found
        return found

    def vectors_with(self, key: Key) -> Vectors | None:
        """The vectors that hold the statistic of one module; None if it was measured alone."""
        found = self.vectors.get(key[1].reduction)
        return found if found is not None and key in found[1] else None

    def _tensors(self, key: Key) -> Sequence[Tensor]:
        try:
            module, reading = key
            if module in self._gone:
                raise ReadingUnavailable(GONE)
            tensors = self._tensors_of(self._modules[module], reading)
            held = of_parameters(tensors, reading.reduction, self._members)
            if not held:
                raise ReadingUnavailable("other ranks hold the tensor")
            if any(map(is_freed, held)):
                raise ReadingUnavailable(FREED)
            return held
        except Exception as error:  # noqa: BLE001 - raised when the value is needed
            self._found[key] = error.with_traceback(None)
            return ()

    def _tensors_of(self, module: nn.Module, reading: Reading) -> list[Tensor]:
        name, named = reading.site.pick, tensors_named(module, reading)
        if any(p is None for p in named):
            own_code = computed_by(module, str(name))
            raise ReadingUnavailable(
                computed_text(str(name), own_code) if own_code else f"{name} is None"
            )
        if reading.site.port != "parameter_grad":
            return named
        own = [p for p in named if p.is_leaf or p.retains_grad]  # torch warns of others' `grad`
        gradients = [dense(p.grad) for p in own if p.grad is not None]
        if gradients:
            return gradients
        if not own or is_computed(module, str(name)):
            raise ReadingUnavailable(computed_of_others(str(name)))
        if all(not p.requires_grad for p in named):
            raise ReadingUnavailable(f"{name} is frozen (requires_grad is False)")
        cleared = "" if self._has_gradients else CLEARED
        raise ReadingUnavailable(f"no gradient reached {name}{cleared}")

    @functools.cached_property
    def _has_gradients(self) -> bool:
        return has_gradients(self._modules[""])

    def _measure_many(
        self, reduction: Any, rows: Mapping[Key, int], tensors: Sequence[Tensor]
    ) -> None:
        try:
            found = reduction.measure_many(tensors)
            refuse_classes(found)
            self.vectors[reduction] = found, rows
        except Exception:  # noqa: BLE001 - read one by one, the failing one is found
            for key, tensor in zip(rows, tensors, strict=True):
                self._measure(reduction, key, [tensor])

    def _measure(self, reduction: Reduction, key: Key, tensors: Sequence[Tensor]) -> None:
        try:
            states = [reduction.measure(tensor.detach()) for tensor in tensors]
            for state in states:
                refuse_classes(state)
            self._found[key] = functools.reduce(reduction.merge, states)
        except Exception as error:  # noqa: BLE001 - raised where it is missed
            self._found[key] = error.with_traceback(None)


def has_gradients(model: nn.Module) -> bool:
    """True if any parameter of a model has a gradient."""
    return any(p.grad is not None for p in parameters_of(model))


def tensors_named(module: nn.Module, reading: Reading) -> list[Tensor]:
    """The parameters or buffers of a module that a reading is of."""
    name = str(reading.site.pick)
    return list(parameters_of(module)) if name == "all" else [tensor_named(module, name)]


def computed_of_others(name: str) -> str:
    """The reason why no gradient and no step of an attribute is known, but those of its parts."""
    return f"{name} is computed of other parameters: ask for theirs"


def dense(gradient: Tensor) -> Tensor:
    """A gradient that may be sparse, as a tensor of all its elements."""
    return gradient if gradient.layout == torch.strided else gradient.to_dense()
