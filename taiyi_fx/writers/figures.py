"""Records as pictures, by matplotlib: curves, layers by steps, spectra over time, epochs.

Colour-blind readers can distinguish the colours, and pictures are readable for sixty layers.
All functions return a ``matplotlib.figure.Figure``: ``curves(...).savefig("curves.png")``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from taiyi_fx.passes.ir import Mode
from taiyi_fx.records.epochs import EpochSummary
from taiyi_fx.records.grid import Grid
from taiyi_fx.suggestion import suggestion
from taiyi_fx.writers.axes import (
    ABSENT,
    BLUE,
    COLORS,
    VERMILLION,
    add_order,
    add_patches,
    edges,
    every_few,
    in_order,
    is_log,
    literal,
    name_axes,
    name_rows,
    new_figure,
    shortened,
    some,
    text,
)
from taiyi_fx.writers.grids import PictureSource, grid_of, vectors_of
from taiyi_fx.writers.import_optional import import_optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_RIDGES = 40
_FLOOR = 1e-8
"""Smaller shares of a spectrum's largest value are drawn as this."""


def curves(records: PictureSource, quantity: str, *, mode: Mode = "train") -> Figure:
    """A picture of a quantity's values over the steps, a curve for each module.

    Up to seven modules differ in colour, more in shade by their order, from dark to light. Where a
    value is NaN or Inf its curve has a gap, and a cross stands at the bottom.

    Args:
        records: The records, or a run.
        quantity: The quantity's name.
        mode: Of the forwards, where `Records` hold both.

    Raises:
        LookupError: There are no numbers of this quantity.
        ImportError: matplotlib is not installed.
    """
    grid = grid_of(records, quantity, mode)
    figure, axes = new_figure(7.5, 4.2)
    is_few = len(grid.modules) <= len(COLORS)
    colors = COLORS if is_few else in_order(len(grid.modules))
    prefix, names = shortened(grid.modules)
    for row, name in enumerate(names):
        _curve(axes, grid, row, colors[row], name)
    if is_log(grid.values[np.isfinite(grid.values)]):
        axes.set_yscale("log")
    axes.grid(color="0.92")
    name_axes(axes, _title(quantity, prefix), "step")
    if not is_few:
        add_order(figure, axes, names)
    elif grid.modules != [""]:
        legend = figure.legend(loc="outside right upper", fontsize=8, frameon=False)
        literal(legend.get_texts())
    return figure


def heatmap(records: PictureSource, quantity: str, *, mode: Mode = "train") -> Figure:
    """A picture of a quantity's values as colours, modules by steps.

    Positive numbers that differ much are on a logarithmic scale. NaN and Inf are orange, and grey
    is where nothing was recorded.

    Args:
        records: The records, or a run.
        quantity: The quantity's name.
        mode: Of the forwards, where `Records` hold both.

    Raises:
        LookupError: There are no numbers of this quantity.
        ImportError: matplotlib is not installed.
    """
    grid = grid_of(records, quantity, mode)
    figure, axes = new_figure(8, min(1.6 + 0.14 * max(len(grid.modules), 8), 11))
    colors = import_optional("matplotlib.colors", "figures")
    is_finite = np.isfinite(grid.values)
    is_bad = grid.present & ~is_finite
    finite = grid.values[is_finite]
    ends = (finite.min(), finite.max()) if len(finite) else (0, 1)
    norm = (colors.LogNorm if is_log(finite) else colors.Normalize)(*ends)
    axes.set_facecolor(ABSENT)
    ends_of_cells = edges(grid.steps), np.arange(len(grid.modules) + 1) - 0.5
    shown = np.ma.masked_where(~is_finite, grid.values)
    mesh = axes.pcolormesh(*ends_of_cells, shown, norm=norm, cmap="viridis")
    bad = np.ma.masked_where(~is_bad, np.ones_like(grid.values))
    axes.pcolormesh(*ends_of_cells, bad, cmap=colors.ListedColormap([VERMILLION]))
    axes.invert_yaxis()
    prefix, names = shortened(grid.modules)
    name_rows(axes, names)
    name_axes(axes, _title(quantity, prefix), "step")
    figure.colorbar(mesh, ax=axes, pad=0.01, aspect=30)
    legend = {"NaN or Inf": (VERMILLION, is_bad), "no record": (ABSENT, ~grid.present)}
    add_patches(figure, {label: color for label, (color, at) in legend.items() if at.any()})
    return figure


def spectra(records: PictureSource, quantity: str, module: str, *, mode: Mode = "train") -> Figure:
    """A picture of a vector over the steps, such as a spectrum: a ridge for each step.

    The first step is at the back; at most 40 are drawn. Heights are logarithmic where positive
    numbers differ much; the bar on the right says how high. NaN and Inf are gaps.

    Args:
        records: The records, or a run.
        quantity: The quantity's name.
        module: The module, with its call.
        mode: Of the forwards, where `Records` hold both.

    Raises:
        LookupError: There are no vectors of this quantity of this module.
        ImportError: matplotlib is not installed.
    """
    steps, vectors = vectors_of(records, quantity, module, mode)
    chosen = some(len(steps), _MOST_RIDGES)
    heights, unit = _heights([vectors[i] for i in chosen])
    figure, axes = new_figure(7.5, 2.4 + 0.11 * len(chosen))
    lift = 1 + len(chosen) / 5
    for row, (ridge, color) in enumerate(zip(heights, in_order(len(chosen)), strict=True)):
        index, base = np.arange(len(ridge)), -row
        axes.fill_between(index, base, base + lift * ridge, color="w", alpha=0.8, lw=0, zorder=row)
        axes.plot(index, base + lift * ridge, color=color, lw=1.3, zorder=row + 0.5)
    shown = every_few(len(chosen), 14)
    starts = [-row + lift * np.nan_to_num(heights[row][0]) for row in shown]
    axes.set_yticks(starts, [str(steps[chosen[row]]) for row in shown])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.annotate("", (1.02, 0), (1.02, lift), ("axes fraction", "data"), arrowprops=_BAR)
    place = axes.get_yaxis_transform()
    axes.text(1.035, lift / 2, unit, transform=place, va="center", rotation=90, fontsize=8)
    axes.margins(x=0.01)
    lowest = [-row + lift * np.nanmin(h, initial=1.0) for row, h in enumerate(heights)]
    axes.set_ylim(min(lowest) - 1, lift + 0.5)
    name_axes(axes, f"{quantity} of {module or 'the model'}", "index", "step")
    return figure


def bands(epochs: Iterable[EpochSummary], quantity: str) -> Figure:
    """A picture of a quantity's summaries over the epochs, a panel for each module.

    The median with the quartiles, or where summaries were made streaming the mean with a standard
    deviation to both sides; and paler the smallest and the largest value. Training is blue,
    evaluation orange.

    Args:
        epochs: ``monitor.epochs``.
        quantity: The quantity's name.

    Raises:
        LookupError: There are no summaries of this quantity.
        ImportError: matplotlib is not installed.
    """
    summaries = list(epochs)
    found: dict[str, dict[Mode, list[EpochSummary]]] = {}
    for summary in summaries:
        if summary.quantity == quantity:
            found.setdefault(summary.module, {}).setdefault(summary.mode, []).append(summary)
    if not found:
        hint = suggestion(quantity, sorted({s.quantity for s in summaries}))
        raise LookupError(f"no summary of {quantity!r}.{hint}")
    columns = math.ceil(math.sqrt(len(found)))
    rows = math.ceil(len(found) / columns)
    kind = import_optional("matplotlib.figure", "figures").Figure
    figure = kind(figsize=(max(1.9 * columns, 4.5) + 0.6, 1.5 * rows + 1.3), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).reshape(-1)
    prefix, names = shortened(list(found))
    for axes, name, modes in zip(panels, names, found.values(), strict=False):
        _panel(axes, name, modes)
    for axes in panels[len(found) :]:
        axes.remove()
    for axes in panels[len(found) - columns : len(found)]:
        axes.tick_params(labelbottom=True)
    panels[0].xaxis.get_major_locator().set_params(integer=True)
    means = np.array([s.mean for of in found.values() for ss in of.values() for s in ss])
    lows = np.array([s.min for of in found.values() for ss in of.values() for s in ss])
    if is_log(means[np.isfinite(means)]) and (lows > 0).all():
        panels[0].set_yscale("log")
    literal([figure.suptitle(_title(text(quantity, 80), prefix), fontsize=11)])
    figure.supxlabel("epoch", fontsize=9)
    if any("eval" in modes for modes in found.values()):
        add_patches(figure, {"training": BLUE, "evaluation": VERMILLION})
    return figure


_BAR = {"arrowstyle": "|-|, widthA=0.2, widthB=0.2", "shrinkA": 0, "shrinkB": 0}


def _title(quantity: str, prefix: str) -> str:
    return f"{quantity} of {prefix}*" if prefix else quantity


def _curve(axes: Axes, grid: Grid, row: int, color: Any, name: str) -> None:
    there = grid.present[row]
    steps, values = grid.steps[there], grid.values[row][there]
    finite = np.where(np.isfinite(values), values, np.nan)
    marker = "." if len(steps) <= 30 else ""
    axes.plot(steps, finite, color=color, lw=1.4, marker=marker, label=name)
    bad = steps[~np.isfinite(values)]
    if len(bad):
        bottom = axes.get_xaxis_transform()
        cross = {"marker": "x", "ls": "", "ms": 5, "clip_on": False, "transform": bottom}
        axes.plot(bad, np.zeros(len(bad)), color=color, **cross)


def _heights(vectors: Sequence[np.ndarray]) -> tuple[list[np.ndarray], str]:
    """Vectors as heights from 0 to 1, and a text that says what a height of 1 is."""
    every = np.concatenate(vectors)
    finite = every[np.isfinite(every)]
    top = finite.max(initial=0.0)
    if finite.min(initial=0.0) >= -_FLOOR * top and is_log(finite[finite > _FLOOR * top]):
        low, high = np.log10(finite[finite > _FLOOR * top].min()), np.log10(top)
        vectors = [np.log10(v.clip(10**low)) for v in vectors]
        unit = f"{10**low:.2g} to {10**high:.2g}, logarithmic"
    else:
        low, high = finite.min(initial=0.0), finite.max(initial=0.0)
        unit = f"{low:.3g} to {high:.3g}"
    span = high - low or 1.0
    return [np.where(np.isfinite(v), (v - low) / span, np.nan) for v in vectors], unit


def _panel(axes: Axes, name: str, modes: dict[Mode, list[EpochSummary]]) -> None:
    for mode, summaries in modes.items():
        color = BLUE if mode == "train" else VERMILLION
        epochs = [s.epoch for s in summaries]
        low, middle, high = np.array([_middle(s) for s in summaries]).T
        axes.fill_between(
            epochs,
            [s.min for s in summaries],
            [s.max for s in summaries],
            color=color,
            alpha=0.15,
            lw=0,
        )
        axes.fill_between(epochs, low, high, color=color, alpha=0.35, lw=0)
        axes.plot(epochs, middle, color=color, lw=1.3, marker="." if len(epochs) < 3 else "")
    literal([axes.set_title(name, fontsize=8)])
    axes.grid(color="0.92")
    axes.tick_params(labelsize=7)


def _middle(summary: EpochSummary) -> tuple[float, float, float]:
    quartiles = summary.lower_quartile, summary.median, summary.upper_quartile
    low, middle, high = quartiles
    if low is None or middle is None or high is None:
        mean, std = summary.mean, summary.std
        return mean - std, mean, mean + std
    return low, middle, high
