"""Facts of an outline that the rules which look for faults use."""

from __future__ import annotations

import functools
from dataclasses import replace

from taiyi_fx.findings import Evidence, Flow
from taiyi_fx.outline.between import (
    constants_before,
    cuts_behind,
    functions_before,
    inputs_before,
    modules_before,
    shape_before,
)
from taiyi_fx.outline.forwards import forwards_of
from taiyi_fx.outline.items import STAYED_PYTHON, Outline
from taiyi_fx.outline.order import execution_order


def with_outline(evidence: Evidence, outline: Outline | None) -> Evidence:
    """The evidence, with forwards, their order and what lies between modules, if it is known."""
    if outline is None:
        return evidence
    flow = Flow(
        before_module=functools.partial(functions_before, outline),
        constants_before=functools.partial(constants_before, outline),
        cuts_behind=functools.partial(cuts_behind, outline),
        inputs_before=functools.partial(inputs_before, outline),
        modules_before=functools.partial(modules_before, outline),
        shape_before=functools.partial(shape_before, outline),
        forwards=forwards_of(outline),
        order=tuple(execution_order(outline)),
        python=_reasons(outline),
    )
    return replace(evidence, flow=flow)


def _reasons(outline: Outline) -> dict[str, str]:
    """The reason for each forward that stayed Python, by the module's name."""
    return {
        item.module: note.removeprefix(STAYED_PYTHON)
        for item in outline.items
        for note in item.notes
        if note.startswith(STAYED_PYTHON)
    }
