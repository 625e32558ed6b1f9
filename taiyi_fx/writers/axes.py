"""Colours, scales and names that the pictures share; any text can be a name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from taiyi_fx.writers.import_optional import import_optional
from taiyi_fx.writers.names import shorter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""The colours of Okabe and Ito, which colour-blind readers can distinguish."""
BLUE, VERMILLION = COLORS[:2]
ABSENT = "0.88"
_LOG_FROM = 30.0
"""The ratio of largest to smallest from which a logarithmic scale shows more."""
_KNOWN_TO_FONTS = {*map(chr, range(0x500)), "…"}
_MOST_NAMES = 64


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure with one panel, of a size in inches.

    Raises:
        ImportError: matplotlib is not installed.
    """
    kind = import_optional("matplotlib.figure", "figures").Figure
    figure = kind(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def in_order(count: int) -> np.ndarray:
    """Colours in an order, from dark to light."""
    return import_optional("matplotlib", "figures").colormaps["viridis"](
        np.linspace(0, 0.92, count)
    )


def is_log(values: np.ndarray) -> bool:
    """True if a logarithmic scale shows more: finite values are positive and differ much."""
    return len(values) > 0 and 0 < values.min() < values.max() / _LOG_FROM


def edges(steps: np.ndarray) -> np.ndarray:
    """The ends of cells around steps, half way between neighbours."""
    if len(steps) == 1:
        return np.array([steps[0] - 0.5, steps[0] + 0.5])
    middle = (steps[1:] + steps[:-1]) / 2
    first, last = steps[0] - (middle[0] - steps[0]), steps[-1] + (steps[-1] - middle[-1])
    return np.concatenate([[first], middle, [last]])


def some(count: int, most: int) -> list[int]:
    """Evenly chosen indices, the first and the last among them."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, most))})


def every_few(count: int, most: int) -> list[int]:
    """Indices at equal distances, from the first on."""
    return list(range(0, count, math.ceil(count / most)))


def text(name: str, longest: int = 40) -> str:
    """A name in characters that fonts have; a long one lacks its middle."""
    shown = "".join(
        c if c.isprintable() and c in _KNOWN_TO_FONTS else c.encode("unicode_escape").decode()
        for c in shorter(name, longest)
    )
    return shorter(shown, longest)


def shortened(modules: Sequence[str]) -> tuple[str, list[str]]:
    """The common beginning of all names, up to a dot, and the rest of each; as shown."""
    parts = [module.split(".")[:-1] for module in modules]
    same = itertools.takewhile(lambda at: len(set(at)) == 1, zip(*parts, strict=False))
    prefix = "".join(f"{at[0]}." for at in same) if len(modules) > 1 else ""
    return text(prefix), [text(m[len(prefix) :] or "the model", 30) for m in modules]


def literal(texts: Iterable[Text]) -> None:
    """Shows texts as they are: a dollar in a name begins no formula."""
    for made in texts:
        made.set_parse_math(False)


def name_axes(axes: Axes, title: str, x: str, y: str = "") -> None:
    """Writes a title and the names of the axes; ticks are whole numbers."""
    locator = import_optional("matplotlib.ticker", "figures").MaxNLocator
    axes.xaxis.set_major_locator(locator(integer=True))
    literal([axes.set_title(text(title, 80), fontsize=11, loc="left")])
    axes.set(xlabel=x, ylabel=y)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Writes names beside the rows of a grid; of very many only some."""
    shown = every_few(len(names), _MOST_NAMES)
    axes.set_yticks(shown, [names[i] for i in shown], fontsize=7 if len(shown) > 20 else 8)
    literal(axes.get_yticklabels())


def add_order(figure: Figure, axes: Axes, names: Sequence[str]) -> None:
    """Adds a bar that says which colour of `in_order` belongs to which name."""
    colors = import_optional("matplotlib.colors", "figures")
    mapping = import_optional("matplotlib.cm", "figures").ScalarMappable
    norm = colors.Normalize(-0.5, len(names) - 0.5)
    scale = mapping(norm, colors.ListedColormap(in_order(len(names))))
    bar = figure.colorbar(scale, ax=axes, pad=0.01, aspect=30)
    shown = every_few(len(names), _MOST_NAMES // 3)
    bar.set_ticks(shown, labels=[names[i] for i in shown], fontsize=7)
    literal(bar.ax.get_yticklabels())
    bar.ax.invert_yaxis()


def add_patches(figure: Figure, colors: dict[str, str]) -> None:
    """Adds a legend of colours below the axes."""
    patch: Any = import_optional("matplotlib.patches", "figures").Patch
    handles = [patch(facecolor=color, label=label) for label, color in colors.items()]
    if handles:
        figure.legend(
            handles=handles,
            loc="outside lower right",
            ncols=len(handles),
            fontsize=8,
            frameon=False,
        )
