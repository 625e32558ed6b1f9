"""Diagram to Graphviz: networkx through pydot to DOT, and DOT to pictures."""

from __future__ import annotations

import html
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

import networkx as nx
import pydot

from taiyi_fx.boxes import Box, Marks, boxes

_INK, _QUIET, _LINE, _PROBED = "#1d2939", "#667085", "#8492a6", "#c2410c"
_FORWARD, _BACKWARD, _PARAMETER, _EDIT = "#0f766e", "#b45309", "#475467", "#7e22ce"
_FAMILIES = {
    "convolution": ("#d8e6f8", ("Conv",)),
    "linear": ("#e7dff3", ("Linear", "Attention", "Bilinear")),
    "norm": ("#e3f1d8", ("Norm",)),
    "recurrent": ("#d9efef", ("LSTM", "GRU", "RNN")),
    "embedding": ("#fadce5", ("Embedding",)),
    "activation": (
        "#fde8c7",
        ("ReLU", "GELU", "SiLU", "Sigmoid", "Tanh", "Softmax", "ELU", "swish", "Mish"),
    ),
}
_OP = "#f4f5f7"
_CLUSTERS = ("#f8fafc", "#eef2f7")


class EngineMissing(RuntimeError):
    """There is no Graphviz to lay a picture out with."""


def build(graph: nx.DiGraph, clusters: Mapping[tuple[str, ...], Box]) -> pydot.Dot:
    """The diagram as a pydot graph: nested clusters, boxes with their marks, a legend."""
    made = pydot.Dot("taiyi_fx", graph_type="digraph", rankdir="TB", newrank="true")
    made.set_graph_defaults(fontname="Helvetica", fontsize="12", fontcolor=_INK, compound="true")
    made.set_node_defaults(
        shape="box", style='"rounded,filled"', fontname="Helvetica", fontsize="12", fontcolor=_INK
    )
    made.set_edge_defaults(color=_LINE, arrowsize="0.7")
    inside: dict[tuple[str, ...], pydot.Graph] = {(): made}
    for scope in sorted(clusters, key=len):
        inside[scope] = _cluster(len(inside), scope, clusters[scope])
    for name, box in boxes(graph):
        inside[box.scope].add_node(_node(name, box))
    for scope in sorted(clusters, key=len, reverse=True):
        inside[scope[:-1]].add_subgraph(inside[scope])  # pyright: ignore[reportArgumentType]
    for source, target in graph.edges:
        made.add_edge(pydot.Edge(source, target))
    for source, target in _below_each_other(graph):
        made.add_edge(pydot.Edge(source, target, style="invis"))
    made.add_subgraph(_legend(_all_boxes(graph, clusters)))  # pyright: ignore[reportArgumentType]
    return made


def _below_each_other(graph: nx.DiGraph) -> Iterator[tuple[str, str]]:
    """Parts of a forward that stayed Python have no edges: a column of them beats a row."""
    above = None
    for name, box in boxes(graph):
        if box.kind == "python":
            above = name
        elif above is not None and graph.degree(name) == 0:
            yield above, name
            above = name


def render(source: str, form: str) -> bytes:
    """A picture of DOT text, as ``"svg"`` or ``"png"``.

    Raises:
        EngineMissing: There is no Graphviz; says what to install.
        RuntimeError: Graphviz failed; shows what it said.
    """
    engine = find_engine()
    if engine is None:
        raise EngineMissing(
            "drawing a picture needs Graphviz: pip install 'taiyi-fx[diagram]', or install "
            "Graphviz itself. A .dot file can be written without it."
        )
    done = subprocess.run(
        [engine, f"-T{form}"], input=source.encode(), capture_output=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"Graphviz ({engine}) failed: {done.stderr.decode(errors='replace')}")
    return done.stdout


def find_engine() -> str | None:
    """The path of a ``dot``: the system's, or that of graphviz-pure beside this Python."""
    scripts = Path(sysconfig.get_path("scripts"))
    beside = [scripts / "graphviz-pure", scripts / "graphviz-pure.exe"]
    found = shutil.which("dot") or shutil.which("graphviz-pure")
    return found or next((str(path) for path in beside if path.exists()), None)


def quoted(text: str) -> str:
    """A DOT string that shows exactly this text, whatever is in it."""
    escaped = _visible(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{html.escape(escaped, quote=False)}"'


def _markup(text: str) -> str:
    # A backslash begins an escape of Graphviz's own, and an empty element is an error to it.
    return html.escape(_visible(text).replace("\n", " ").replace("\\", "\\\\")) or "&#160;"


def _visible(text: str) -> str:
    # XML has no control characters, escaped or not.
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def _cluster(number: int, scope: tuple[str, ...], box: Box) -> pydot.Cluster:
    title = f"<B>{_markup(box.label)}</B> · {_markup(box.class_name)}"
    label = f"<<TABLE BORDER='0' CELLSPACING='1'><TR><TD ALIGN='LEFT'>{title}</TD></TR>"
    return pydot.Cluster(
        f"c{number}",
        label=f"{label}{_rows(box.marks)}</TABLE>>",
        labeljust="l",
        style='"rounded,filled,dashed"' if box.kind == "python" else '"rounded,filled"',
        color=f'"{_border(box.marks, "#c9d2de")}"',
        penwidth="2" if box.marks else "1",
        fillcolor=f'"{_CLUSTERS[len(scope) % 2]}"',
        fontname="Helvetica",
        fontsize="12",
        tooltip=quoted("\n".join(box.notes)),
    )


def _node(name: str, box: Box) -> pydot.Node:
    quiet = f" <FONT COLOR='{_QUIET}' POINT-SIZE='10'>{_markup(box.class_name)}</FONT>"
    title = f"<B>{_markup(box.label)}</B>{quiet if box.class_name else ''}"
    rows = f"<TR><TD>{title}</TD></TR>{_rows(box.marks)}"
    python = box.kind == "python"
    return pydot.Node(
        name,
        label=f"<<TABLE BORDER='0' CELLBORDER='0' CELLSPACING='2' CELLPADDING='1'>{rows}</TABLE>>",
        fillcolor=f'"{_fill(box)}"',
        color=f'"{_border(box.marks, _LINE)}"',
        penwidth="2" if box.marks else "1",
        style='"rounded,filled,dashed"' if python else '"rounded,filled"',
        tooltip=quoted("\n".join(box.notes) or box.label),
        margin='"0.06,0.03"',
        height="0.3",
    )


def _border(marks: Marks, plain: str) -> str:
    if marks.has_readings:
        return _PROBED
    return _EDIT if marks.edits else plain


def _rows(marks: Marks) -> str:
    if not marks:
        return ""
    rows = (
        _mark("▼", _FORWARD, marks.forward)
        + _mark("▲", _BACKWARD, marks.backward)
        + _mark("■", _PARAMETER, marks.parameters)
        + _mark("ƒ", _EDIT, marks.edits)
    )
    # In a table of their own, or a wide title would stretch the badges.
    table = f"<TABLE BORDER='0' CELLBORDER='0' CELLSPACING='1' CELLPADDING='1'>{rows}</TABLE>"
    return f"<TR><TD ALIGN='LEFT'>{table}</TD></TR>"


def _mark(sign: str, colour: str, entries: tuple[str, ...]) -> str:
    if not entries:
        return ""
    lines = "<BR ALIGN='LEFT'/>".join(map(_markup, entries)) + "<BR ALIGN='LEFT'/>"
    badge = (
        f"<TD BGCOLOR='{colour}' WIDTH='16'><FONT COLOR='white' POINT-SIZE='9'>{sign}</FONT></TD>"
    )
    text = f"<FONT COLOR='{colour}' POINT-SIZE='9'>{lines}</FONT>"
    return f"<TR>{badge}<TD BGCOLOR='white' ALIGN='LEFT' BALIGN='LEFT'>{text}</TD></TR>"


def _family(box: Box) -> str | None:
    for family, (_, words) in _FAMILIES.items():
        if box.kind == "module" and any(word in box.class_name for word in words):
            return family
    return None


def _fill(box: Box) -> str:
    family = _family(box)
    if family:
        return _FAMILIES[family][0]
    return "white" if box.kind in ("input", "output", "python") else _OP


def _all_boxes(graph: nx.DiGraph, clusters: Mapping[tuple[str, ...], Box]) -> list[Box]:
    return [*clusters.values(), *(box for _, box in boxes(graph))]


def _legend(shown_boxes: list[Box]) -> pydot.Cluster:
    shown = {_family(box) for box in shown_boxes}
    rows = [
        f"<TR><TD BGCOLOR='{colour}' WIDTH='18' BORDER='1' COLOR='{_LINE}'></TD>"
        f"<TD ALIGN='LEFT'>{family}</TD></TR>"
        for family, (colour, _) in _FAMILIES.items()
        if family in shown
    ]
    rows.append(
        f"<TR><TD BGCOLOR='{_OP}' WIDTH='18' BORDER='1' COLOR='{_LINE}'></TD>"
        "<TD ALIGN='LEFT'>other module, operation</TD></TR>"
    )
    if any(box.kind == "python" for box in shown_boxes):
        rows.append("<TR><TD>- -</TD><TD ALIGN='LEFT'>forward that stayed Python</TD></TR>")
    signs = [
        ("▼", _FORWARD, "forward probe (value)"),
        ("▲", _BACKWARD, "backward probe (gradient)"),
        ("■", _PARAMETER, "parameters, read at track"),
    ]
    if any(box.marks.edits for box in shown_boxes):
        signs.append(("ƒ", _EDIT, "edit, changes what passes"))
    for sign, colour, text in signs:
        badge = f"<TD BGCOLOR='{colour}'><FONT COLOR='white'>{sign}</FONT></TD>"
        rows.append(f"<TR>{badge}<TD ALIGN='LEFT'>{text}</TD></TR>")
    legend = pydot.Cluster("legend", label="", color='"#c9d2de"', style='"rounded"')
    table = f"<<TABLE BORDER='0' CELLSPACING='3' CELLPADDING='2'>{''.join(rows)}</TABLE>>"
    legend.add_node(
        pydot.Node(
            "legend", shape="plain", style="solid", label=table, fontsize="10", tooltip=quoted(" ")
        )
    )
    return legend
