"""The order in which a model's modules are executed, as an outline shows it."""

from __future__ import annotations

from collections.abc import Iterable

from taiyi_fx.outline.items import Outline


def execution_order(outline: Outline) -> list[str]:
    """The names of modules that the outline shows, each behind the one around it.

    Of a run of identical modules it shows the first.
    """
    return [*dict.fromkeys(item.module for item in outline.items if item.module)]


def places_of_outputs(modules: Iterable[str]) -> dict[str, tuple[int, int]]:
    """By module its place in the order of outputs: that of a module comes after those of its parts.

    Args:
        modules: Names in the order in which calls begin, each behind the one around it.
    """
    ends: dict[str, int] = {}
    for place, name in enumerate(modules):
        ends[name] = ends[""] = place
        while "." in name:
            name = name.rpartition(".")[0]
            ends[name] = place
    return {name: (end, -name.count(".") - bool(name)) for name, end in ends.items()}
