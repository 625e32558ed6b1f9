"""The functions between modules, as an outline shows them."""

from __future__ import annotations

from taiyi_fx.outline.items import Outline


def functions_before(outline: Outline, module: str) -> list[str]:
    """The functions that make what a module is given from what other modules return.

    Args:
        outline: The model.
        module: The module's name in records, with its call.

    Returns:
        Their names, in the order of execution; none if the outline does not show the module.
    """
    items = outline.items
    sources: dict[int, list[int]] = {}
    for edge in outline.edges:
        sources.setdefault(edge.target, []).append(edge.source)
    level = [i for i, item in enumerate(items) if item.module == module and item.kind == "module"]
    found = set[int]()
    while level:
        new = {source for i in level for source in sources.get(i, ()) if source not in found}
        level = [i for i in new if items[i].kind in ("op", "plumbing") and not items[i].module]
        found.update(level)
    return [items[i].label for i in sorted(found) if items[i].kind == "op"]
