"""Curves as lines of text."""

import numpy as np
import pytest

from taiyi_fx.cli.sparkline import BLOCKS, sparkline
from taiyi_fx.runs import Curve
from tests.cli.given_runs import INF, NAN


@pytest.mark.parametrize(
    ("steps", "values", "width", "line"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 7], 9, "▁▂▃█"),
        ([0, 1, 2, 3], [0, 2, 6, 8], 2, "▁█"),
        ([0, 9], [5, 5], 5, "▁   ▁"),
        ([0, 1], [1.7e308, -1.7e308], 5, "█▁"),
        ([0, 0, 1], [1, NAN, 3], 5, "!▁"),
        ([2], [NAN], 5, "!"),
        ([0, 1], [-INF, INF], 5, "!!"),
        ([0, 1], [0, 5e-324], 5, "▁█"),
        ([0, 10**18], [0, 1], 48, "▁" + 46 * " " + "█"),
        ([0, 2**61, 2**62], [0, 7, 0], 3, "▁█▁"),
        ([-(2**62), 0, 2**62], [0, 7, 0], 3, "▁█▁"),
    ],
)
def test_a_sparkline_is_from_the_smallest_to_the_largest(steps, values, width, line):
    curve = Curve(np.array(steps), np.array(values, np.float64))
    assert sparkline(curve, BLOCKS, steps[0], steps[-1], width) == line
