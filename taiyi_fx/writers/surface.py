"""A vector over the steps as a surface to turn around, by plotly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from taiyi_fx.passes.ir import Mode
from taiyi_fx.writers.grids import PictureSource, vectors_of
from taiyi_fx.writers.import_optional import import_optional

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def surface(
    records: PictureSource, module: str, quantity: str, *, log: bool = False, mode: Mode = "train"
) -> Figure:
    """A picture of a vector over the steps, as a surface of steps x indices x values.

    Vectors of different lengths end where they end; NaN and Inf are holes, and with ``log``
    so are numbers that are not positive.

    Args:
        records: The records, or a run.
        module: The module, with its call.
        quantity: The quantity's name.
        log: True for a logarithmic scale of values.
        mode: Of the forwards, where `Records` hold both.

    Raises:
        LookupError: There are no vectors of this quantity of this module.
        ImportError: plotly is not installed.
    """
    objects: Any = import_optional("plotly.graph_objects", "plotly")
    steps, vectors = vectors_of(records, quantity, module, mode)
    heights = np.full((len(steps), max(map(len, vectors))), np.nan)
    for row, vector in zip(heights, vectors, strict=True):
        row[: len(vector)] = vector
    heights[~np.isfinite(heights) | (log & (heights <= 0))] = np.nan
    made = objects.Surface(x=np.arange(heights.shape[1]), y=steps, z=heights, colorscale="Viridis")
    figure = objects.Figure(made)
    axes = {
        "xaxis": {"title": "index"},
        "yaxis": {"title": "step"},
        "zaxis": {"title": "value", "type": "log" if log else "linear"},
    }
    title = f"{quantity} of {module or 'the model'}".replace("<", "&lt;")
    return figure.update_layout(title=title, scene=axes)
