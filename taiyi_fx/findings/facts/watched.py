"""One series of numbers, as rules look at it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.quantities.health import from_stored, may_be_undefined

Steps: TypeAlias = "NDArray[np.int64]"
Values: TypeAlias = "NDArray[np.float64]"

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


class Watched(NamedTuple):
    """One series of numbers.

    Attributes:
        module: The module, with its call.
        quantity: The quantity's name.
        direction: ``"forward"``, ``"backward"``, ``"parameter"``, or ``""`` for logged numbers.
        health: The quantity's rule of health.
        unit: The unit of its numbers.
        steps: Its steps, ascending.
        values: Its numbers, float64.
        shown: Its name in sentences, if it is not that of the quantity and the module.
        may_be_undefined: True if NaN or Inf among its numbers tells of none in the model.
        mode: The mode of the forwards, ``"train"`` or ``"eval"``.
    """

    module: str
    quantity: str
    direction: str
    health: str
    unit: str
    steps: Steps
    values: Values
    shown: str = ""
    may_be_undefined: bool = False
    mode: str = "train"

    @staticmethod
    def made(
        name: tuple[str, str],
        facts: tuple[str, str, str],
        steps: Steps,
        values: Values,
        mode: str = "train",
    ) -> Watched:
        """A series, sorted by step; of several numbers at one step the last.

        Sizes of steps since the previous due one become sizes of one step, as schedules differ.

        Args:
            name: Its module and its quantity.
            facts: Its direction, its rule of health as runs store it, and its unit.
            steps: Its steps.
            values: Its numbers.
            mode: The mode of the forwards.
        """
        direction, stored, unit = facts
        health = from_stored(stored)
        if not (steps[1:] > steps[:-1]).all():
            order = np.argsort(steps, kind="stable")
            steps, values = steps[order], values[order]
            is_last = np.append(np.diff(steps) > 0, True)
            steps, values = steps[is_last], values[is_last]
        if health == "step_size" and len(steps) > 1:
            gaps = np.diff(steps)
            values = values / np.append(gaps[:1], gaps)
        made = Watched(*name, direction, health, unit, steps, values, mode=mode)
        return made._replace(may_be_undefined=may_be_undefined(unit, stored))

    @property
    def title(self) -> str:
        """Its name in sentences."""
        of = f" of {self.module!r}" if self.module else ""
        return self.shown or f"{self.quantity}{of}"

    @property
    def is_bad(self) -> NDArray[np.bool_]:
        """A mask of the numbers that are NaN or Inf, or count some, where that is a fault.

        A ratio may be infinite, as a condition number is, or without a value, of zero by zero.
        """
        if self.may_be_undefined:
            return np.zeros(len(self.values), bool)
        bad = ~np.isfinite(self.values)
        return bad | (self.values > 0) if self.health == "counts_non_finite" else bad

    def at(self, chosen: NDArray[np.bool_]) -> Watched:
        """The chosen numbers."""
        return self._replace(steps=self.steps[chosen], values=self.values[chosen])

    def behind(self, earlier: Watched | None) -> Watched:
        """The numbers, behind those of an earlier series and as part of it."""
        if earlier is None:
            return self._replace(mode="train")
        steps = np.concatenate([earlier.steps, self.steps])
        values = np.concatenate([earlier.values, self.values])
        return earlier._replace(steps=steps, values=values)

    def before(self, step: int) -> Watched:
        """The numbers before a step."""
        n = int(np.searchsorted(self.steps, step))
        return self._replace(steps=self.steps[:n], values=self.values[:n])

    @property
    def is_logged(self) -> bool:
        """True for a number of the user's own, a loss or a metric."""
        return not (self.direction or self.module)

    @property
    def last_half(self) -> Values:
        """The later half of its numbers."""
        return self.values[len(self.values) // 2 :]

    @property
    def name(self) -> str:
        """The module's name without its call."""
        return self.module.partition("@")[0]

    @property
    def call(self) -> str:
        """The number of the module's call; empty for the first."""
        return self.module.partition("@")[2]

    @property
    def role(self) -> str:
        """The module's name without its numbers: that of its siblings, too."""
        return role_of(self.module)

    @property
    def is_of_any_role(self) -> bool:
        """True for a name that ends in a number alone, such as "0": it tells no role."""
        return self.role.rpartition(".")[2] == "*"


def at_common_steps(series: Sequence[Watched]) -> list[Watched]:
    """Several series at the steps that all of them have."""
    first, *others = series
    steps = first.steps  # nearly always one array for all that is read together
    if all(one.steps is steps or np.array_equal(steps, one.steps) for one in others):
        return [*series]
    common = functools.reduce(np.intersect1d, (one.steps for one in series))
    return [one.at(np.isin(one.steps, common)) for one in series]


def over(one: Watched, other: Watched) -> Watched:
    """One size over another, at the steps that both have: of nothing, a factor says nothing."""
    one, other = at_common_steps([one, other])
    known = (one.values != 0) & (other.values != 0)
    values = np.abs(one.values[known] / other.values[known])
    return one._replace(steps=one.steps[known], values=values)


def in_roles(series: Iterable[Watched]) -> Iterable[list[Watched]]:
    """The series of modules that have one role, of each role."""
    return grouped(series, lambda one: one.role).values()


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Items by what they have in common, in the order in which each key came first."""
    found: dict[_Key, list[_Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


@functools.lru_cache(maxsize=1 << 14)
def role_of(module: str) -> str:
    """A module's name without its numbers."""
    return re.sub(r"\d+", "*", module)


def names_of(series: Sequence[Watched], most: int = 3) -> str:
    """The modules of some series in a sentence: the first of them, and how many more."""
    names = [repr(one.module) for one in series]
    shown = names if len(names) <= most else [*names[:most], f"{len(names) - most} more"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)
