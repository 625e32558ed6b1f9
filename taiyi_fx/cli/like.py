"""The series of a run under the names of another run's, whose model may be another."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, NamedTuple

from taiyi_fx.cli.opening import selected
from taiyi_fx.cli.printing import printable

if TYPE_CHECKING:
    from taiyi_fx.runs import Run, SeriesName, Span

    Named = dict[SeriesName, SeriesName]
    """Series of a run, by their names in the first run."""


class Matched(NamedTuple):
    """The chosen series of two runs, by the first one's names.

    Attributes:
        both: Those that both have, and their names in the second.
        only: Those that one run alone has: 0 for the first, 1 for the second.
    """

    both: Named
    only: dict[SeriesName, int]

    @classmethod
    def of(cls, one: Run, other: Run, given: Namespace) -> Matched:
        """Those chosen by options of the command line."""
        ours = one.spans()
        theirs = under_names_of(one, other, ours)
        names = selected({**ours, **theirs}, given)
        both = {name: theirs[name] for name in names if name in ours and name in theirs}
        return cls(both, {name: 0 if name in ours else 1 for name in names if name not in both})


def place(name: SeriesName) -> str:
    """A series in a sentence: ``'layer1.0' WeightNorm``."""
    return f"{printable(repr(name.module))} {name.quantity}"


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
