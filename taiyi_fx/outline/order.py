"""The order in which a model's modules are executed, as an outline shows it."""

from __future__ import annotations

from taiyi_fx.outline.items import Outline


def execution_order(outline: Outline) -> list[str]:
    """The names of modules that the outline shows, each behind the one around it.

    Of a run of identical modules it shows the first.
    """
    return [*dict.fromkeys(item.module for item in outline.items if item.module)]
