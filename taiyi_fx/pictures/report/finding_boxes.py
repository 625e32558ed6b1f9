"""The boxes of the graph that a finding names: modules, functions between them, inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from taiyi_fx.findings import Finding
from taiyi_fx.outline import Item, Outline

_LIST = re.compile(r"'[^']+'(?:(?:,| and) '[^']+')*")
_BEHIND: Mapping[str, tuple[str, ...]] = {
    "torn_view": ("view", "reshape", "unflatten", "flatten"),
    "softmax_axis": ("softmax", "log_softmax"),
}
"""The functions that a kind is about, where its findings do not name them."""


def boxes_of(found: Finding, outline: Outline) -> list[int]:
    """The items of an outline that a finding names, its module's first; none twice.

    Named with its module are those in one list with it, as in ``'a', 'b' and 'c'``, and those of
    the findings of its kind beneath it.
    """
    named = [*_modules(found, outline), *_functions(found, outline), *_given(found, outline)]
    same = [one for one in found.consequences if one.kind == found.kind]
    beneath = [i for one in same for i in boxes_of(one, outline)]
    return [*dict.fromkeys([*named, *beneath])]


def _modules(found: Finding, outline: Outline) -> Iterator[int]:
    if not found.module:
        return
    lists = (re.findall("'([^']+)'", one) for one in _LIST.findall(found.text))
    beside = next((names for names in lists if found.module in names), [])
    for name in (found.module, *beside):
        yield from outline.places.get(name, ())[:1]


def _functions(found: Finding, outline: Outline) -> Iterator[int]:
    if not found.module:  # of a loss, which is given what the last of them returned
        for name in found.functions:
            yield from _last_named(outline, name)
        return
    labels = found.functions or _BEHIND.get(found.kind, ())
    yield from _nearest(outline, found.module, lambda item: item.label in labels)


def _last_named(outline: Outline, name: str) -> Iterator[int]:
    """The last function or module of a name, which is that of the module's class in small letters.

    Items lie in the order of execution.
    """
    names = [(item.label, item.class_name.lower()) for item in outline.items]
    yield from [i for i, both in enumerate(names) if name in both][-1:]


def _nearest(outline: Outline, module: str, is_meant: Callable[[Item], bool]) -> Iterator[int]:
    """The first functions that are meant, on all ways from a module through functions alone."""
    onwards: dict[int, list[int]] = {}
    for edge in outline.edges:
        onwards.setdefault(edge.source, []).append(edge.target)
    homes = {*outline.places.get(module, ())}
    begin = [i for i in onwards if homes.intersection(outline.around(i))]
    ways = _ways(outline, begin, onwards, is_meant)
    yield from sorted(i for i in ways if is_meant(outline.items[i]))


def _given(found: Finding, outline: Outline) -> Iterator[int]:
    """The inputs that a module is given, if it is that which is wrong.

    Of a NaN that arises on the way from them, the functions there.
    """
    if not (found.module and found.quantity.startswith("Input")):
        return
    into = outline.edges_into
    first = [edge.source for i in outline.places.get(found.module, ()) for edge in into.get(i, ())]
    back = {i: [edge.source for edge in edges] for i, edges in into.items()}
    passed = {*first, *_ways(outline, [i for i in first if _is_function(outline.items[i])], back)}
    functions = [i for i in passed if outline.items[i].kind == "op"]
    if found.kind == "non_finite" and functions:
        yield from sorted(functions)
    elif all(outline.items[i].kind == "input" or _is_function(outline.items[i]) for i in passed):
        yield from sorted(i for i in passed if outline.items[i].kind == "input")


def _ways(
    outline: Outline,
    begin: Iterable[int],
    steps: Mapping[int, Collection[int]],
    is_end: Callable[[Item], bool] = lambda _: False,
) -> set[int]:
    """The items that steps lead to, through functions alone; none leads on from an end."""
    found: set[int] = set()
    waiting = [*begin]
    while waiting:
        new = {i for i in steps.get(waiting.pop(), ()) if i not in found}
        found |= new
        items = outline.items
        waiting += [i for i in new if _is_function(items[i]) and not is_end(items[i])]
    return found


def _is_function(item: Item) -> bool:
    return item.kind in ("op", "plumbing") and not item.module
