"""The fallback for Graphviz: a plainer picture, placed by `layered` and drawn by matplotlib."""

from __future__ import annotations

import functools
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from taiyi_fx.outline.view import View
from taiyi_fx.pictures.diagram.colours import FAINT, INK, LINE, MARKS, QUIET
from taiyi_fx.pictures.diagram.engines import ADVICE, EngineMissing
from taiyi_fx.pictures.diagram.faces import Face
from taiyi_fx.pictures.diagram.layered import Layout, Point, Rectangle, Size, layout
from taiyi_fx.pictures.diagram.legend import Entry, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLE, _TEXT = 10.0, 8.0
_ROW = 13.0
_PAD = 8.0
_NOTE = f"Drawn without Graphviz. For a better layout: {ADVICE}."


class _Piece(NamedTuple):
    """A text with its colours, size and weight."""

    text: str
    colour: str
    behind: str = ""
    size: float = _TEXT
    weight: str = "normal"

    @property
    def width(self) -> float:
        return _width(self.text, self.size, self.weight)


_Row: TypeAlias = Sequence[_Piece]


def render(view: View, faces: Mapping[int, Face], direction: str, form: str) -> bytes:
    """A picture of a view, as ``"svg"`` or ``"png"``, with a note on how to get a better one.

    Raises:
        EngineMissing: matplotlib is not installed either.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise EngineMissing(
            f"drawing a picture needs Graphviz: {ADVICE}. A .dot file can be written without it."
        ) from error
    with warnings.catch_warnings(), mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": ""}):
        # Its font has not all letters of all names; an SVG's reader will.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        figure = Figure()
        _sketch(figure, view, faces, direction)
        return _saved(figure, form)


def _sketch(figure: Figure, view: View, faces: Mapping[int, Face], direction: str) -> None:
    """Draws the legend, below it the boxes, and at the end the note."""
    found = layout(view, {i: _size(faces[i]) for i in (*view.clusters, *view.boxes)}, direction)
    entries = _rows_of(legend(faces))
    note = (_Piece(_NOTE, QUIET),)
    head = (len(entries) + 1) * _ROW
    width = max([found.size[0], *map(_span, (note, *entries))]) + 4 * _PAD
    height = found.size[1] + head + 4 * _PAD + _ROW
    axes = _paper(figure, width, height)
    for number, row in enumerate(entries):
        _write_row(axes, 2 * _PAD, (number + 1) * _ROW, row)
    _draw(axes, view, faces, _moved(found, ((width - found.size[0]) / 2, head + 2 * _PAD)))
    _write_row(axes, 2 * _PAD, height - _ROW, note)


def _paper(figure: Figure, width: float, height: float) -> Axes:
    figure.set_size_inches(width / 72, height / 72)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    return axes


def _saved(figure: Figure, form: str) -> bytes:
    made = io.BytesIO()
    date = {"Date": None} if form == "svg" else {}
    figure.savefig(made, format=form, dpi=144, facecolor="white", metadata=date)
    return made.getvalue()


def _moved(found: Layout, by: Point) -> Layout:
    return Layout(
        {i: at._replace(x=at.x + by[0], y=at.y + by[1]) for i, at in found.places.items()},
        {ends: [(x + by[0], y + by[1]) for x, y in way] for ends, way in found.ways.items()},
        found.size,
    )


def _draw(axes: Axes, view: View, faces: Mapping[int, Face], found: Layout) -> None:
    for i in view.clusters:
        _box(axes, found.places[i], faces[i], is_cluster=True)
    labelled: set[tuple[int, str]] = set()
    for edge in view.edges:
        points = found.ways[edge[:2]]
        ends = found.places[edge.source], found.places[edge.target]
        label = (
            edge.shape if view.crosses(edge) and (edge.source, edge.shape) not in labelled else ""
        )
        labelled.add((edge.source, edge.shape))
        _arrow(axes, ends, points, label)
    for i in view.boxes:
        _box(axes, found.places[i], faces[i])


def _box(axes: Axes, at: Rectangle, face: Face, *, is_cluster: bool = False) -> None:
    from matplotlib.patches import FancyBboxPatch

    for grown in (3.0, 0.0) if face.is_double else (0.0,):
        corner = (at.x - grown, at.y - grown)
        patch = FancyBboxPatch(
            corner,
            at.width + 2 * grown,
            at.height + 2 * grown,
            boxstyle="round,pad=0,rounding_size=6",
            facecolor=face.fill,
            edgecolor=FAINT if is_cluster and not face.is_bold else face.border,
            linewidth=1.8 if face.is_bold else 0.8,
            linestyle=face.stroke,
            zorder=1 if is_cluster else 3,
        )
        axes.add_patch(patch)
    rows = list(_rows(face))
    longest = max(map(_span, rows[1:]), default=0.0)
    for number, row in enumerate(rows):
        span = longest if number and not face.counts else _span(row)
        start = at.x + (_PAD if is_cluster else (at.width - span) / 2)
        _write_row(axes, start, at.y + _PAD + _ROW * (number + 0.25), row)


def _rows(face: Face) -> Iterator[_Row]:
    """The lines in a box: its title, then its badges or counts."""
    yield (
        _Piece(face.label, QUIET) if face.is_soft else _Piece(face.label, INK, "", _TITLE, "bold"),
        _Piece(f" {face.quiet}" if face.quiet else "", QUIET),
    )
    for badge in face.badges:
        sign, colour = MARKS[badge.kind]
        for number, (line, of_line) in enumerate(zip(badge.lines, badge.colours, strict=True)):
            yield (
                _Piece(f" {sign} ", colour if number else "white", colour),
                _Piece(f" {line.text} ", of_line, "white"),
            )
    if face.counts:
        yield tuple(_Piece(f" {count.text} ", "white", count.colour) for count in face.counts)


def _size(face: Face) -> Size:
    rows = list(_rows(face))
    return max(map(_span, rows)) + 2 * _PAD, len(rows) * _ROW + 1.5 * _PAD


def _span(row: _Row) -> float:
    return sum(piece.width for piece in row)


@functools.lru_cache(maxsize=4096)
def _width(text: str, size: float = _TEXT, weight: str = "normal") -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight=weight)
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]


def _write_row(axes: Axes, x: float, y: float, row: _Row) -> None:
    from matplotlib.patches import Rectangle as Patch

    for piece in row:
        if piece.behind:
            corner = (x, y - _ROW / 2 + 1)
            axes.add_patch(Patch(corner, piece.width, _ROW - 1, facecolor=piece.behind, zorder=4))
        _write(axes, x, y, piece)
        x += piece.width


def _write(axes: Axes, x: float, y: float, piece: _Piece) -> None:
    axes.text(
        x,
        y,
        piece.text,
        color=piece.colour,
        fontsize=piece.size,
        fontweight=piece.weight,
        va="center_baseline",
        parse_math=False,  # names are none, whatever dollars are in them
        zorder=5,
    )


def _arrow(
    axes: Axes, ends: tuple[Rectangle, Rectangle], points: Sequence[Point], label: str
) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    first, last = (_middle(box) for box in ends)
    start = _border(ends[0], points[0] if points else last)
    end = _border(ends[1], points[-1] if points else first)
    path = Path([start, *points, end])
    arrow = FancyArrowPatch(
        path=path, arrowstyle="-|>", mutation_scale=8, color=LINE, linewidth=0.9, zorder=2
    )
    axes.add_patch(arrow)
    if label:
        x, y = ((a + b) / 2 for a, b in zip(start, points[0] if points else end, strict=True))
        _write(axes, x + 3, y, _Piece(label, QUIET, size=_TEXT - 1))


def _middle(at: Rectangle) -> Point:
    return at.x + at.width / 2, at.y + at.height / 2


def _border(at: Rectangle, towards: Point) -> Point:
    """The point where a line from the middle of a box to a point leaves the box."""
    (x, y), (dx, dy) = (
        _middle(at),
        (towards[0] - at.x - at.width / 2, towards[1] - at.y - at.height / 2),
    )
    scales = [size / 2 / abs(d) for size, d in ((at.width, dx), (at.height, dy)) if d]
    scale = min([*scales, 1.0])
    return x + dx * scale, y + dy * scale


_PER_ROW = 4


def _rows_of(entries: Sequence[Entry]) -> list[_Row]:
    pieces = [piece for entry in entries for piece in _entry(entry)]
    step = 2 * _PER_ROW
    return [pieces[i : i + step] for i in range(0, len(pieces), step)]


def _entry(entry: Entry) -> tuple[_Piece, _Piece]:
    meaning = f" {entry.text}    "
    if entry.look == "badge":
        return _Piece(f" {entry.sign} ", "white", entry.colour), _Piece(meaning, INK)
    if entry.look == "fill":
        return _Piece("      ", INK, entry.colour), _Piece(meaning, INK)
    if entry.look == "text":
        return _Piece(" 0.12", entry.colour), _Piece(meaning, entry.colour)
    sign = {"double": "▢▢", "dashed": "- - -", "dotted": "· · ·"}[entry.look]
    return _Piece(f" {sign}", LINE), _Piece(meaning, INK)
