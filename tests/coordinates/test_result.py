"""Verdicts of slopes, and their picture: a panel for each role, sizes above and changes below."""

import numpy as np
import pytest

import taiyi_fx
from tests.coordinates import models

WIDTHS = (8, 16, 32)


def check(**slopes):
    changes = {role: (np.array(WIDTHS, float) ** slope)[:, None] for role, slope in slopes.items()}
    return taiyi_fx.CoordinateCheck(WIDTHS, 1, 1, changes, changes)


@pytest.mark.parametrize(
    ("slopes", "verdict", "steepest"),
    [
        ({"a": 0.1, "b": -0.2}, "flat", "a"),
        ({"a": 0.5, "b": -0.9}, "grows", "a"),
        ({"a": 0.2, "b": -0.9}, "fades", "b"),
    ],
)
def test_what_grows_is_named_before_what_fades(slopes, verdict, steepest):
    found = check(**slopes)
    assert (found.verdict, found.steepest) == (verdict, steepest)


def test_what_is_not_finite_grows_and_what_never_moves_has_no_slope():
    sizes = {"a": np.array([[1.0], [np.inf], [1.0]]), "b": np.zeros((3, 1))}
    found = taiyi_fx.CoordinateCheck(WIDTHS, 1, 1, sizes, sizes)
    assert found.slopes["a"] == np.inf
    assert np.isnan(found.slopes["b"])
    assert (found.verdict, found.steepest) == ("grows", "a")


def test_each_role_has_its_sizes_and_its_changes(tmp_path):
    found = taiyi_fx.coordinate_check(
        models.standard, models.batch(), widths=(8, 16), steps=2, seeds=1
    )
    made = found.figure()
    assert len(made.axes) == 2 * len(found.sizes)
    first = made.axes[0]
    assert len(first.lines) == 3
    assert [*first.lines[0].get_xdata()] == [8, 16]
    assert made.get_suptitle() == f"coordinate check: {found.verdict}"
    made.savefig(tmp_path / "coordinates.png")
    assert (tmp_path / "coordinates.png").stat().st_size > 1000
