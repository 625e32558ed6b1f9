"""The forward of each module as an outline shows it: its own calls, and what passes between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from taiyi_fx.findings import OUTSIDE, Forward
from taiyi_fx.outline.items import MODULES, Item, Outline

_FUNCTIONS = ("op", "plumbing")

Way = tuple[str, str]
Places = Mapping[int, int]
"""By each of the modules around an item, the item of its own that it stands in."""


def forwards_of(outline: Outline) -> dict[str, Forward]:
    """The forward of each module of which the outline shows any calls, by its name in records."""
    places = _places(outline.items)
    names = _names(outline, places)
    calls = [Counter[str]() for _ in outline.items]
    ways = [set[Way]() for _ in outline.items]
    for name, around in zip(names, places, strict=True):
        if name and around:
            calls[next(iter(around))][name] += 1
    for source, target, _ in outline.edges:
        for module, way in _ways(places[source], places[target], names):
            ways[module].add(way)
    return {
        item.module: Forward(frozenset(calls[i].items()), frozenset(ways[i]), item.kind == "python")
        for i, item in enumerate(outline.items)
        if item.module and calls[i]
    }


def _places(items: Sequence[Item]) -> list[dict[int, int]]:
    """The places of each item, from the innermost module on."""
    found: list[dict[int, int]] = []
    for index, item in enumerate(items):
        around = item.parent
        while around > 0 and items[around].kind not in MODULES:
            around = items[around].parent
        found.append({around: index, **found[around]} if around >= 0 else {})
    return found


def _names(outline: Outline, places: Sequence[Places]) -> list[str]:
    """The name of each call within the module around it; empty of what is none."""
    is_parent = {item.parent for item in outline.items}
    return [
        _part(item.module, outline.items[next(iter(places[i]))].module)
        if item.kind in MODULES and i and item.is_called
        else f"{item.label.partition(' (')[0]}()"
        if item.kind in _FUNCTIONS and i not in is_parent
        else OUTSIDE
        for i, item in enumerate(outline.items)
    ]


def _part(module: str, around: str) -> str:
    return module.partition("@")[0].removeprefix(f"{around.partition('@')[0]}.")


def _ways(source: Places, target: Places, names: Sequence[str]) -> Iterator[tuple[int, Way]]:
    """The modules in which an edge leads from one call to another, each with the two."""
    for module in source.keys() | target.keys():
        start, end = source.get(module), target.get(module)
        if start != end:
            yield module, (_called(start, names), _called(end, names))


def _called(place: int | None, names: Sequence[str]) -> str:
    return OUTSIDE if place is None else names[place]
