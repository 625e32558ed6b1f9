"""A diagram as DOT text, for Graphviz."""

from __future__ import annotations

import html
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

import pydot

from taiyi_fx.outline import Edge
from taiyi_fx.outline.view import View
from taiyi_fx.pictures.diagram.colours import FAINT, INK, LINE, MARKS, QUIET
from taiyi_fx.pictures.diagram.faces import Badge, Count, Face
from taiyi_fx.pictures.diagram.legend import Entry, legend

_FONT = "Helvetica"
"""A font whose letter widths Graphviz knows; in an SVG, sans-serif is the second choice."""

_COLUMN = 8
"""The number of boxes without edges in one column."""


def to_dot(view: View, faces: Mapping[int, Face], direction: str = "TB") -> str:
    """DOT text of a view; needs no Graphviz.

    Names of nodes are ``n0``, those of clusters ``cluster_0``: numbers of items.

    Args:
        view: The boxes, clusters and edges.
        faces: Their looks.
        direction: The direction of the data flow: ``"TB"`` (down), ``"LR"``, ``"BT"`` or ``"RL"``.
    """
    made = _graph(direction, legend(faces))
    inside: dict[int, pydot.Graph] = {-1: made}
    for i in view.clusters:
        inside[i] = _cluster(i, faces[i])
    for i in view.boxes:
        inside[view.homes[i]].add_node(_node(i, faces[i]))
    for i in reversed(view.clusters):
        inside[view.homes[i]].add_subgraph(inside[i])  # pyright: ignore[reportArgumentType]
    for edge in _edges(view):
        made.add_edge(edge)
    return made.to_string()


def quoted(text: str) -> str:
    """A DOT string that shows a text literally, whatever characters it has."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{html.escape(escaped, quote=False)}"'


def _markup(text: str) -> str:
    # A backslash begins an escape of Graphviz's own, and an empty element is an error to it.
    return html.escape(text.replace("\\", "\\\\")) or "&#160;"


def _graph(direction: str, entries: Sequence[Entry]) -> pydot.Dot:
    made = pydot.Dot(
        "taiyi_fx",
        graph_type="digraph",
        rankdir=direction,
        newrank="true",
        ranksep="0.32",
        nodesep="0.22",
        bgcolor="white",
        tooltip=quoted(" "),
        **_legend_label(entries),
    )
    made.set_graph_defaults(fontname=_FONT, fontsize="12", fontcolor=f'"{INK}"')
    made.set_node_defaults(
        shape="box",
        fontname=_FONT,
        fontsize="12",
        fontcolor=f'"{INK}"',
        margin='"0.06,0.03"',
        height="0.3",
        width="0.4",
    )
    made.set_edge_defaults(
        color=f'"{LINE}"', arrowsize="0.6", fontname=_FONT, fontsize="9", fontcolor=f'"{QUIET}"'
    )
    return made


def _cluster(i: int, face: Face) -> pydot.Cluster:
    title = _markup(face.label) if face.is_soft else f"<B>{_markup(face.label)}</B>"
    quiet = f" <FONT POINT-SIZE='10'>· {_markup(face.quiet)}</FONT>" if face.quiet else ""
    rows = f"<TR><TD ALIGN='LEFT'>{title}{quiet}</TD></TR>{_badges(face.badges)}"
    return pydot.Cluster(
        str(i),
        label=f"<{_TABLE}{rows}</TABLE>>",
        labeljust="l",
        style=_style(face),
        color=f'"{face.border if face.is_bold else FAINT}"',
        penwidth="2" if face.is_bold else "1",
        fillcolor=f'"{face.fill}"',
        margin="10",
        tooltip=quoted(face.tooltip),
    )


_TABLE = "<TABLE BORDER='0' CELLBORDER='0' CELLSPACING='1' CELLPADDING='1'>"


def _node(i: int, face: Face) -> pydot.Node:
    rows = f"<TR><TD>{_title(face)}</TD></TR>{_badges(face.badges)}{_counts(face.counts)}"
    return pydot.Node(
        f"n{i}",
        label=f"<{_TABLE}{rows}</TABLE>>",
        fillcolor=f'"{face.fill}"',
        color=f'"{face.border}"',
        penwidth="2" if face.is_bold else "1",
        peripheries="2" if face.is_double else "1",
        style=_style(face),
        tooltip=quoted(face.tooltip),
    )


def _title(face: Face) -> str:
    quiet = f"<FONT COLOR='{QUIET}' POINT-SIZE='10'>{_markup(face.quiet)}</FONT>"
    if face.is_soft:
        return f"<FONT COLOR='{QUIET}' POINT-SIZE='10'>{_markup(face.label)}</FONT>"
    # Graphviz takes letters whose widths it does not know for narrower than they are.
    gap = " " if face.label.isascii() else "&#160; "
    return f"<B>{_markup(face.label)}</B>{gap + quiet if face.quiet else ''}"


def _style(face: Face) -> str:
    return f'"rounded,filled,{face.stroke}"'


def _badges(badges: Sequence[Badge]) -> str:
    if not badges:
        return ""
    # In a table of their own, or a wide title would stretch the signs.
    rows = "".join(map(_badge, badges))
    return f"<TR><TD>{_TABLE}{rows}</TABLE></TD></TR>"


def _badge(badge: Badge) -> str:
    sign, colour = MARKS[badge.kind]
    lines = "".join(
        f"<FONT COLOR='{of_line}'>{_markup(line.text)}&#160;</FONT><BR ALIGN='LEFT'/>"
        for line, of_line in zip(badge.lines, badge.colours, strict=True)
    )
    cell = (
        f"<TD BGCOLOR='{colour}' WIDTH='16'><FONT COLOR='white' POINT-SIZE='9'>{sign}</FONT></TD>"
    )
    text = f"<FONT POINT-SIZE='10'>{lines}</FONT>"
    return f"<TR>{cell}<TD BGCOLOR='white' ALIGN='LEFT' BALIGN='LEFT'>{text}</TD></TR>"


def _counts(counts: Sequence[Count]) -> str:
    if not counts:
        return ""
    cells = "".join(
        f"<TD BGCOLOR='{count.colour}' WIDTH='34'>"
        f"<FONT COLOR='white' POINT-SIZE='10'>&#160;{_markup(count.text)}&#160;</FONT></TD>"
        for count in counts
    )
    return f"<TR><TD>{_TABLE}<TR>{cells}</TR></TABLE></TD></TR>"


def _edges(view: View) -> Iterator[pydot.Edge]:
    labelled: set[tuple[int, str]] = set()
    joined: set[int] = set()
    for edge in view.edges:
        joined.update(edge[:2])
        label = ""
        # The shape of a value that goes to several boxes is written once.
        if edge.shape and view.crosses(edge) and (edge.source, edge.shape) not in labelled:
            labelled.add((edge.source, edge.shape))
            label = f" {edge.shape}"
        yield _edge(edge, label)
    yield from _columns(joined, view)


def _edge(edge: Edge, label: str) -> pydot.Edge:
    made = pydot.Edge(f"n{edge.source}", f"n{edge.target}", tooltip=quoted(edge.shape or " "))
    if label:
        made.set("label", quoted(label))
    return made


def _columns(joined: Collection[int], view: View) -> Iterator[pydot.Edge]:
    """Invisible edges that put boxes without edges into columns, instead of one long row.

    A column begins below the first box that has edges and stands in the same module, or else
    Graphviz would draw the module from the top of the picture on.
    """
    homes: dict[int, list[int]] = {}
    for i in view.boxes:
        if i not in joined:
            homes.setdefault(view.homes[i], []).append(i)
    firsts = _firsts_within(joined, view)
    for home, members in homes.items():
        if home in firsts:
            members.insert(0, firsts[home])
        for place, (above, below) in enumerate(itertools.pairwise(members), 1):
            if place % _COLUMN:
                yield pydot.Edge(f"n{above}", f"n{below}", style="invis")


def _firsts_within(joined: Collection[int], view: View) -> dict[int, int]:
    """The first box with edges in each cluster, or in those within it."""
    firsts: dict[int, int] = {}
    for box in view.boxes:
        home = view.homes[box] if box in joined else -1
        while home != -1:
            firsts.setdefault(home, box)
            home = view.homes[home]
    return firsts


_PER_ROW = 4


def _legend_label(entries: Sequence[Entry]) -> dict[str, str]:
    """The legend as the label of the whole graph, so that it is not one of its boxes."""
    if not entries:
        return {}
    cells = list(map(_entry, entries))
    rows = [cells[start : start + _PER_ROW] for start in range(0, len(cells), _PER_ROW)]
    table = "".join(f"<TR>{''.join(row)}</TR>" for row in rows)
    label = f"<<TABLE BORDER='0' CELLBORDER='0' CELLSPACING='4' CELLPADDING='1'>{table}</TABLE>>"
    return {"label": label, "labelloc": "t", "labeljust": "l"}


def _entry(entry: Entry) -> str:
    text = f"<TD ALIGN='LEFT'><FONT POINT-SIZE='10'>{_markup(entry.text)}</FONT></TD>"
    if entry.look == "fill":
        return f"<TD BORDER='1' COLOR='{LINE}' BGCOLOR='{entry.colour}' WIDTH='20'></TD>{text}"
    if entry.look == "badge":
        sign = f"<FONT COLOR='white' POINT-SIZE='9'>{entry.sign}</FONT>"
        return f"<TD BGCOLOR='{entry.colour}' WIDTH='20'>{sign}</TD>{text}"
    if entry.look == "text":
        return (
            f"<TD><FONT COLOR='{entry.colour}' POINT-SIZE='10'>0.12</FONT></TD>"
            f"<TD ALIGN='LEFT'><FONT COLOR='{entry.colour}' POINT-SIZE='10'>"
            f"{_markup(entry.text)}</FONT></TD>"
        )
    style = f" STYLE='{entry.look.upper()}'" if entry.look in ("dashed", "dotted") else ""
    inner = (
        f"<TABLE BORDER='1' CELLBORDER='0' COLOR='{LINE}'{style} CELLSPACING='0'>"
        "<TR><TD WIDTH='16' HEIGHT='8'></TD></TR></TABLE>"
    )
    outer = f"BORDER='{1 if entry.look == 'double' else 0}' COLOR='{LINE}'"
    return f"<TD {outer} CELLPADDING='2'>{inner}</TD>{text}"
