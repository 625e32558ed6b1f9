"""The legend: the meaning of the colours, signs and borders that occur in a diagram."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from taiyi_fx.pictures.diagram.colours import FAMILIES, MARKS, STATES
from taiyi_fx.pictures.diagram.faces import Face

Look = Literal["fill", "badge", "double", "dashed", "dotted", "text"]


class Entry(NamedTuple):
    """A line of a legend.

    Attributes:
        look: The kind of sample: a filled box, a sign on its colour, a border, or coloured text.
        colour: The colour; empty for borders.
        sign: The sign in a badge.
        text: The meaning.
    """

    look: Look
    colour: str
    sign: str
    text: str


_MEANINGS = {
    "forward": "forward probe (values)",
    "backward": "backward probe (gradients)",
    "parameters": "parameters, read at track",
    "edits": "edit, changes what passes",
}

_VALUES = {"ok": "latest value", "warn": "unusual: ↑ ↓ or ~", "alert": "needs a look: !"}


def legend(faces: Mapping[int, Face]) -> tuple[Entry, ...]:
    """The entries for all that occurs in some faces."""
    return (*_families(faces), *_kinds(faces), *_borders(faces))


def _families(faces: Mapping[int, Face]) -> Iterator[Entry]:
    fills = {face.fill for face in faces.values()}
    for family, colour in FAMILIES.items():
        if colour in fills:
            yield Entry("fill", colour, "", family)


def _kinds(faces: Mapping[int, Face]) -> Iterator[Entry]:
    kinds = frozenset().union(*(face.kinds for face in faces.values()))
    for kind, (sign, colour) in MARKS.items():
        if kind in kinds:
            yield Entry("badge", colour, sign, _MEANINGS[kind])
    for state, colour in STATES.items():
        if state in kinds:
            yield Entry("text", colour, "", _VALUES[state])


def _borders(faces: Mapping[int, Face]) -> Iterator[Entry]:
    if any(face.is_double for face in faces.values()):
        yield Entry("double", "", "", "several of the same structure")
    strokes = {face.stroke for face in faces.values()}
    if "dotted" in strokes:
        yield Entry("dotted", "", "", "only rearranges")
    if "dashed" in strokes:
        yield Entry("dashed", "", "", "forward that stayed Python")
