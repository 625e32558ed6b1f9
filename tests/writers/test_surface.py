"""A vector over the steps as a surface."""

import math

import numpy as np
import torch
from plotly.graph_objects import Figure as PlotlyFigure

from taiyi_fx.records.record import Record, Records
from taiyi_fx.writers import surface


def test_a_surface_is_steps_by_indices():
    rows = [Record(s, "fc", "E", torch.tensor([1.0, -2.0, math.inf][: 3 - s])) for s in range(2)]
    figure = surface(Records(rows), "fc", "E")
    assert isinstance(figure, PlotlyFigure)
    np.testing.assert_array_equal(figure.data[0].z, [[1, -2, math.nan], [1, -2, math.nan]])
    assert list(figure.data[0].y) == [0, 1]
    logarithmic = surface(Records(rows), "fc", "E", log=True)
    np.testing.assert_array_equal(logarithmic.data[0].z[0], [1, math.nan, math.nan])
    assert logarithmic.layout.scene.zaxis.type == "log"
