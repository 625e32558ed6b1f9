"""Graphviz's SVG, finished: text that fits in any font, and titles that no edge crosses."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

LARGER = {9: 11, 10: 12, 12: 14}
"""The sizes of fonts in DOT text, each with the one that is laid out for it.

Graphviz measures letters of Helvetica, whatever the viewer has; DejaVu Sans, the widest usual font,
is 15 % wider. So texts are laid out at least so much larger, and written in their own size.
Graphviz takes whole sizes only.
"""

_OWN = {larger: own for own, larger in LARGER.items()}

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
# Names have no "<" and no line of their own in DOT text: only what `dot.py` wrote is found.
_MARKUP = re.compile(r"(<FONT [^<>]*POINT-SIZE=')(\d+)(')")
_DEFAULT = re.compile(r'^((?:graph|node|edge) \[[^\n]*?fontsize="?)(\d+)()', re.MULTILINE)
_SIZE = re.compile(r'(<text [^>]*font-size=")([\d.]+)(")')


def enlarged(dot: str) -> str:
    """DOT text with all fonts `LARGER`, for `finished`."""
    for sizes in (_MARKUP, _DEFAULT):
        dot = sizes.sub(lambda at: f"{at[1]}{LARGER[int(at[2])]}{at[3]}", dot)
    return dot


def finished(picture: bytes) -> bytes:
    """An SVG of DOT text with fonts that are `LARGER`, as it is to be shown."""
    text = _SIZE.sub(lambda at: f"{at[1]}{_OWN[round(float(at[2]))]}{at[3]}", picture.decode())
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    root = ET.fromstring(text)
    for graph in root.iter(f"{{{_SVG}}}g"):
        if graph.get("class") == "graph":
            _lift_titles(graph)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True)


def _lift_titles(graph: ET.Element) -> None:
    """Moves the titles and values of clusters behind all edges, so that no edge crosses them."""
    for cluster in [g for g in graph if g.get("class") == "cluster"]:
        home = next(iter(cluster.iter(f"{{{_SVG}}}a")), cluster)
        frame, *title = [part for part in home if part.tag != f"{{{_SVG}}}title"]
        lifted = ET.SubElement(graph, f"{{{_SVG}}}g", {"class": "title"})
        is_bare = True  # the title's line has no ground of its own, values behind it have
        for part in title:
            home.remove(part)
            is_bare &= part.tag == f"{{{_SVG}}}text"
            if is_bare:
                part.attrib |= _halo(frame.get("fill", "white"))
            lifted.append(part)


def _halo(fill: str) -> dict[str, str]:
    """Attributes that keep a text clear of what is under it."""
    return {
        "stroke": fill,
        "stroke-width": "4",
        "stroke-linejoin": "round",
        "paint-order": "stroke",
    }
