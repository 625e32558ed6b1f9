"""The result of a coordinate check: slopes of sizes over widths, and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from taiyi_fx.writers.import_optional import import_optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Verdict = Literal["flat", "grows", "fades"]

_COLUMNS = 12
"""Roles that a picture shows, those that grow most."""
_STEEP = 0.3
"""Between 0, of a maximal update, and 1/2 or 1, of parametrizations that are not."""


@dataclass(frozen=True)
class CoordinateCheck:
    """The sizes of what modules compute, and change by, over widths.

    Attributes:
        widths: The widths, ascending.
        steps: The number of updates.
        seeds: The number of initialisations.
        sizes: By role, root mean squares of the output: widths by steps, the first before any
            update. A role is a module's name with ``*`` for the number of its block.
        changes: By role, root mean squares of its change since then.
    """

    widths: tuple[int, ...]
    steps: int
    seeds: int
    sizes: Mapping[str, np.ndarray[Any, Any]] = field(repr=False)
    changes: Mapping[str, np.ndarray[Any, Any]] = field(repr=False)

    @property
    def slopes(self) -> dict[str, float]:
        """The slope of log size over log width after the last update, by role."""
        return {role: self._slope(of) for role, of in self.sizes.items()}

    @property
    def change_slopes(self) -> dict[str, float]:
        """The same of what the updates changed."""
        return {role: self._slope(of) for role, of in self.changes.items()}

    def _slope(self, values: np.ndarray[Any, Any]) -> float:
        last = values[:, -1]
        if not (np.isfinite(last) & (last > 0)).all():
            return float("inf") if not np.isfinite(last).all() else float("nan")
        return float(np.polyfit(np.log(self.widths), np.log(last), 1)[0])

    @property
    def verdict(self) -> Verdict:
        """``"grows"`` or ``"fades"`` where the change of a role does, by a slope of 0.3; or "flat".

        What grows is named before what fades. Sizes alone grow or fade late: at first they are
        those of the initialisation.
        """
        slopes = [*self.change_slopes.values()]
        if any(slope > _STEEP for slope in slopes):
            return "grows"
        return "fades" if any(slope < -_STEEP for slope in slopes) else "flat"

    @property
    def steepest(self) -> str:
        """The role whose change grows, or else fades, most."""
        slopes = self.change_slopes
        sign = -1 if self.verdict == "fades" else 1
        return max(slopes, key=lambda role: np.nan_to_num(sign * slopes[role], nan=-np.inf))

    def figure(self) -> Figure:
        """A picture: sizes over widths, a curve for each step and a panel for each role.

        Raises:
            ImportError: matplotlib is not installed.
        """
        return _figure(self)

    def __str__(self) -> str:
        names = max(len(role) for role in self.sizes)
        slopes, changes = self.slopes, self.change_slopes
        head = (
            f"{'':{names}}  size  change   (slopes over widths {', '.join(map(str, self.widths))})"
        )
        rows = [f"{role:{names}} {slopes[role]:5.2f}  {changes[role]:6.2f}" for role in self.sizes]
        return "\n".join(
            [f"verdict: {_WORDS[self.verdict].format(self._named())}", "", head, *rows]
        )

    def _named(self) -> str:
        role = self.steepest
        return f"{role!r} like width^{self.change_slopes[role]:.2f}"


_WORDS: Mapping[Verdict, str] = {
    "flat": "flat: what updates change does not depend on the width, as in a maximal update "
    "parametrization; a learning rate that is tuned on a narrow model holds for a wide one",
    "grows": "grows: what updates change grows with the width, most at {}, as in the standard "
    "parametrization; a learning rate that is tuned on a narrow model is too large for a wide one",
    "fades": "fades: what updates change fades with the width, most at {}; wide models hardly "
    "learn there at this rate",
}


def _figure(check: CoordinateCheck) -> Figure:
    """Two rows of panels, one column for each role: sizes above, changes below."""
    import_optional("matplotlib", "figures")
    from matplotlib.figure import Figure as NewFigure

    steep = sorted(check.sizes, key=lambda role: -abs(check.change_slopes[role]))[:_COLUMNS]
    roles = [role for role in check.sizes if role in steep]
    made = NewFigure(figsize=(1.2 + 2.1 * len(roles), 5), layout="constrained")
    panels = made.subplots(2, len(roles), squeeze=False, sharex=True, sharey="row")
    for column, role in enumerate(roles):
        for row, (of, slopes) in enumerate(
            [(check.sizes, check.slopes), (check.changes, check.change_slopes)]
        ):
            _draw(panels[row][column], check, of[role], first=row)
            panels[row][column].set_title(f"{role}: {slopes[role]:+.2f}", fontsize="medium")
    panels[0][0].set_ylabel("size of the output (RMS)")
    panels[1][0].set_ylabel("its change since step 0")
    panels[0][-1].legend(title="step", fontsize="small")
    made.suptitle(f"coordinate check: {check.verdict}")
    return made


def _draw(axes: Axes, check: CoordinateCheck, values: np.ndarray[Any, Any], first: int) -> None:
    from matplotlib import colormaps

    colours = colormaps["viridis"].resampled(check.steps + 1)
    for step in range(first, check.steps + 1):
        axes.plot(check.widths, values[:, step], "o-", ms=3, color=colours(step), label=str(step))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(check.widths, list(map(str, check.widths)))
    axes.grid(visible=True, alpha=0.3)
    axes.set_xlabel("width")
