"""The series of a run under the names of another run's, whose model may be another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from taiyi_fx.runs import Run, SeriesName, Span

    Named = dict[SeriesName, SeriesName]
    """Series of a run, by their names in the first run."""


def under_names_of(first: Run, other: Run, spans: dict[SeriesName, Span]) -> Named:
    """The series of a run by the names that their like has in the first one.

    Modules are alike by name, by name without wrappers, and by their place among others of their
    classes; a module without its like keeps its own name.

    Args:
        first: The first run.
        other: The run.
        spans: The first run's series.
    """
    from taiyi_fx.pictures.report.aligned import Modules, aligned

    ours, theirs = (
        Modules.of((name.module for name in of if name.module), run.outline)
        for run, of in ((first, spans), (other, other.spans()))
    )
    like = aligned(ours, theirs) if {*ours.names} != {*theirs.names} else {}
    return {
        name._replace(module=like.get(name.module, name.module)): name for name in other.spans()
    }


def aligned_modules(named: Named) -> int:
    """The number of modules that have another name in the first run."""
    return len({own.module for name, own in named.items() if name.module != own.module})
