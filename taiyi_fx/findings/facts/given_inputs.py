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
        epsilon: The distance of numbers near 1 in their format.
    """

    mean: float
    deviation: float
    epsilon: float = 0.0


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


class Repeats(NamedTuple):
    """How many samples of one batch are copies of others, to the last bit, in all inputs.

    Attributes:
        samples: The samples of the batch.
        different: Those that are different from each other.
        continuous: The samples of which most numbers are no integers, codes or padding.
        is_doubled: True if its halves are equal, or each two samples that follow each other.
        codes: A number for each of the samples that are different, which another batch has for the
            same sample.
    """

    samples: int
    different: int
    continuous: int
    is_doubled: bool
    codes: frozenset[int] = frozenset()


class Interleaving(NamedTuple):
    """How much numbers differ that are near each other in memory, or as far apart as channels.

    Root mean squares over one batch. Of images and signals whose channels come first, the next
    number is the next pixel: of such whose channels came last in memory, it is another channel.

    Attributes:
        shape: The shape of one sample, channels first.
        next: The difference to the next number.
        next_but_channels: That to the number behind as many as there are channels.
        across: The same where one channel ends and the next begins.
    """

    shape: tuple[int, ...]
    next: float
    next_but_channels: float
    across: float


class ShownTokens(NamedTuple):
    """The tokens of one forward, as an `attention_mask` of transformers parts them: 1 shows.

    Attributes:
        shown: How many it shows.
        hidden: How many it hides.
        token: The one that all shown ones are; None if they differ, or none is shown.
        are_hidden_different: True if it hides several different ones.
    """

    shown: int
    hidden: int
    token: int | None
    are_hidden_different: bool


@dataclass(frozen=True)
class GivenInputs:
    """The model's inputs of floating point in some forwards, the first and ever rarer ones.

    Attributes:
        trained: Those of training, by the input's name, or its number from 0.
        evaluated: Those of evaluation, likewise.
        far: The furthest entry of each input of training that is a table, in forwards.
        repeats: The copies among the samples of each batch of training.
        interleaving: The order of the numbers of each input that has channels, of training under
            True, and of evaluation under False.
        shown: What the mask of tokens showed, in forwards of training.
    """

    trained: Mapping[str, Sequence[Distribution]] = field(default_factory=dict)
    evaluated: Mapping[str, Sequence[Distribution]] = field(default_factory=dict)
    far: Mapping[str, Sequence[FarEntry]] = field(default_factory=dict)
    repeats: Sequence[Repeats] = ()
    interleaving: Mapping[bool, Mapping[str, Sequence[Interleaving]]] = field(default_factory=dict)
    shown: Sequence[ShownTokens] = ()
