"""``taiyi-fx plot``: a run's curves, in the terminal or as a picture."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from taiyi_fx.cli.command import Commands, command
from taiyi_fx.cli.opening import add_selection, opened, selected
from taiyi_fx.cli.printing import say, table
from taiyi_fx.cli.refused import Refused
from taiyi_fx.cli.sparkline import BLOCKS, PLAIN, sparkline

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from taiyi_fx import EpochSummary
    from taiyi_fx.passes.ir import Mode
    from taiyi_fx.records.grid import Grid
    from taiyi_fx.runs import Run, SeriesName

_EXAMPLES = """
taiyi-fx plot runs/exp1
taiyi-fx plot runs/exp1 --quantity WeightNorm -o norms.png
taiyi-fx plot runs/exp1 --quantity WeightNorm --module 'layer4.*' --kind heatmap -o norms.svg
taiyi-fx plot runs/exp1 --quantity ForwardInputEigOfCov --module fc --kind spectra -o spectra.png
"""
_WIDTH = 48


def add(commands: Commands) -> None:
    """Adds the subcommand."""
    added = command(
        commands, "plot", "draw a run's curves, in the terminal or to a file", _run, _EXAMPLES
    )
    added.add_argument("path", metavar="RUN", help="the run's folder")
    add_selection(added)
    added.add_argument(
        "-o", "--output", metavar="FILE", help="a picture of one quantity: .png, .svg or .pdf"
    )
    added.add_argument(
        "--kind",
        choices=("curves", "heatmap", "spectra", "bands"),
        default="curves",
        help="of picture: a curve for each module, modules by steps, a module's vectors over the "
        "steps, or what each epoch did (default: curves)",
    )


def _run(given: Namespace) -> int:
    if given.output is not None:
        with opened(given.path) as run:
            figure = _figure(run, selected(run.spans(), given), given.kind)
        _save(figure, given.output)
        return 0
    if given.kind != "curves":
        raise Refused(f"--kind {given.kind} is for a picture: give -o FILE")
    with opened(given.path) as run:
        lines = _lines(run, selected(run.spans(), given))
    say(lines)
    return 0


def _save(figure: Figure, file: str) -> None:
    try:
        figure.savefig(file)
    except (OSError, ValueError) as error:
        raise Refused(str(error)) from error
    say(file)


def _lines(run: Run, names: list[SeriesName]) -> str:
    curves = run.curves(names)
    if not curves:
        return "no numbers to draw"
    first = min(int(curve.steps[0]) for curve in curves.values())
    last = max(int(curve.steps[-1]) for curve in curves.values())
    levels = BLOCKS if _can_show(BLOCKS) else PLAIN
    rows = [
        (*name, sparkline(curve, levels, first, last, _WIDTH), *_ends(curve.values))
        for name, curve in curves.items()
    ]
    head = ("module", "quantity", "mode", f"steps {first} ... {last}", "first", "last")
    return table(head, rows)


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _ends(values: Any) -> tuple[str, str]:
    return f"{values[0]:.4g}", f"{values[-1]:.4g}"


def _figure(run: Run, names: list[SeriesName], kind: str) -> Figure:
    quantity, mode = _one(names, "quantity"), _one(names, "mode")
    from taiyi_fx.writers import figures

    try:
        if kind == "bands":
            return figures.bands(_epochs(run, names), quantity)
        source = _Chosen(run, names)
        if kind == "spectra":
            return figures.spectra(source, quantity, _one(names, "module"), mode=mode)
        draw = figures.heatmap if kind == "heatmap" else figures.curves
        return draw(source, quantity, mode=mode)
    except (LookupError, ImportError) as error:
        raise Refused(str(error)) from error


def _one(names: list[SeriesName], what: str) -> Any:
    found = list(dict.fromkeys(getattr(name, what) for name in names))
    if len(found) == 1:
        return found[0]
    shown = ", ".join(map(repr, found[:8])) + (", ..." if len(found) > 8 else "")
    raise Refused(f"a picture is of one {what}: choose by --{what} from {shown}")


class _Chosen:
    """A run reduced to some of its modules, for figures to draw."""

    def __init__(self, run: Run, names: list[SeriesName]) -> None:
        self._modules = {name.module for name in names}
        self._run = run

    def grid(self, quantity: str, mode: Mode = "train") -> Grid:
        """Their numbers, at the steps at which one of them has any."""
        found = self._run.grid(quantity, mode)
        modules, steps, values, present = found
        rows = [i for i, module in enumerate(modules) if module in self._modules]
        if not rows:
            raise LookupError(f"{quantity!r} of these modules are tensors: try --kind spectra")
        at = present[rows].any(axis=0)
        names = tuple(modules[i] for i in rows)
        return found._replace(
            modules=names,
            steps=steps[at],
            values=values[rows][:, at],
            present=present[rows][:, at],
        )

    def tensors(
        self, module: str, quantity: str, mode: Mode = "train"
    ) -> Mapping[int, NDArray[Any]]:
        """The tensors of one."""
        return self._run.tensors(module, quantity, mode)


def _epochs(run: Run, names: list[SeriesName]) -> list[EpochSummary]:
    """Summaries of the run's epochs, computed again from its numbers."""
    from taiyi_fx.records.epochs import Epochs
    from taiyi_fx.records.record import Record

    curves = run.curves(names)
    found: list[EpochSummary] = []
    for span in run.epochs:
        epoch = Epochs("exact")
        for (module, quantity, mode), (steps, values) in curves.items():
            if span.first is None or span.last is None:
                continue
            inside = values[(steps >= span.first) & (steps <= span.last)]
            for value in inside.tolist():
                epoch.add(Record(0, module, quantity, value, mode))
        found += epoch.close(span.number)
    return found
