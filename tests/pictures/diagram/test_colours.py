"""The colours: what is written on them can be read."""

import itertools

import pytest

from taiyi_fx.outline.families import FAMILIES as KNOWN
from taiyi_fx.pictures.diagram.colours import (
    CLUSTERS,
    EDITED,
    ENDS,
    FAMILIES,
    INK,
    MARKS,
    PLAIN,
    PLUMBING,
    QUIET,
    STATES,
)


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("fill", [*FAMILIES.values(), *CLUSTERS, PLAIN, PLUMBING, ENDS])
@pytest.mark.parametrize("ink", [INK, QUIET])
def test_text_stands_out_from_what_fills_a_box(ink, fill):
    assert contrast(ink, fill) >= 4.5


@pytest.mark.parametrize(
    "colour", [EDITED, *STATES.values(), *(colour for _, colour in MARKS.values())]
)
def test_values_on_white_and_white_on_badges_can_be_read(colour):
    assert contrast(colour, "#ffffff") >= 4.5


def test_every_family_has_a_colour_of_its_own():
    assert set(FAMILIES) == set(KNOWN)
    for one, other in itertools.combinations([*FAMILIES.values(), PLAIN], 2):
        apart = sum(abs(int(one[i : i + 2], 16) - int(other[i : i + 2], 16)) for i in (1, 3, 5))
        assert apart >= 14, (one, other)
