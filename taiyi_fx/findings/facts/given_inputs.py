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


@dataclass(frozen=True)
class GivenInputs:
    """The model's inputs of floating point in some forwards, the first and ever rarer ones.

    Attributes:
        trained: Those of training, by the input's name, or its number from 0.
        evaluated: Those of evaluation, likewise.
    """

    trained: Mapping[str, Sequence[Distribution]] = field(default_factory=dict)
    evaluated: Mapping[str, Sequence[Distribution]] = field(default_factory=dict)
