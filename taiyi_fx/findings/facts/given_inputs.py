"""The model's own inputs, as they were in training and in evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Distribution(NamedTuple):
    """The numbers of one input of one forward.

    Attributes:
        mean: Their mean.
        deviation: Their standard deviation.
    """

    mean: float
    deviation: float


class FarEntry(NamedTuple):
    """One entry of the samples of a table that has a value far from all others in some of them.

    Attributes:
        entry: Its place in a sample, from 0.
        value: The value, the least or the largest of all.
        share: The share of samples that have it.
        distance: How far it is from the next one, in deviations of all others.
    """

    entry: int
    value: float
    share: float
    distance: float


@dataclass(frozen=True)
class GivenInputs:
    """The model's inputs of floating point in some forwards, the first and ever rarer ones.

    Attributes:
        trained: Those of training, by the input's name, or its number from 0.
        evaluated: Those of evaluation, likewise.
        far: The furthest entry of each input of training that is a table, in forwards.
    """

    trained: Mapping[str, Sequence[Distribution]] = field(default_factory=dict)
    evaluated: Mapping[str, Sequence[Distribution]] = field(default_factory=dict)
    far: Mapping[str, Sequence[FarEntry]] = field(default_factory=dict)
