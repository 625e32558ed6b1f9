"""Programs that show a reduction or a whole model to be wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from taiyi_fx.passes.ir import Reduction
from taiyi_fx.quantities.declare import Quantity
from taiyi_fx.testing.compare import Floor
from taiyi_fx.testing.literals import number_text, quoted, tensor_text
from taiyi_fx.testing.module import ModuleRecipe
from taiyi_fx.testing.script import complete, named
from taiyi_fx.testing.source import Excerpt, excerpt_of
from taiyi_fx.testing.tensor import OVERWRITTEN, TensorRecipe


def program_of_merge(
    quantity: Quantity,
    reduction: Reduction,
    x: TensorRecipe,
    sizes: tuple[int, ...],
    merged: str,
    *,
    rel: float,
    floor: Floor,
) -> str:
    """A program in which merged states finish otherwise than that of all rows."""
    excerpt = Excerpt()
    lines = [
        f"reduction = {_reduction(reduction, excerpt)}",
        f"x = {tensor_text(x)}",
        "whole = reduction.finish(reduction.measure(x.clone()))",
        f"parts = [reduction.measure(part) for part in x.split({list(sizes)})]",
        f"x.untyped_storage().fill_({OVERWRITTEN})  # a state keeps no memory of its tensor",
        f"merged = {merged}",
        f"assert_agrees(reduction.finish(merged), whole, rel={rel!r}, floor={number_text(floor)})",
    ]
    return complete(f"{quantity.name}: merged states are not that of all rows", lines, excerpt)


def program_of_scale(
    quantity: Quantity,
    reduction: Reduction,
    x: TensorRecipe,
    factor: float,
    *,
    rel: float,
    floor: Floor,
) -> str:
    """A program in which a scaled state finishes otherwise than that of the scaled tensor."""
    excerpt = Excerpt()
    lines = [
        f"reduction = {_reduction(reduction, excerpt)}",
        f"x = {tensor_text(x)}",
        f"scaled = reduction.finish(reduction.scale(reduction.measure(x), {factor!r}))",
        f"expected = reduction.finish(reduction.measure(x * {factor!r}))",
        f"assert_agrees(scaled, expected, rel={rel!r}, floor={number_text(floor)})",
    ]
    return complete(f"{quantity.name}: a scaled state is not that of the scaled", lines, excerpt)


def _reduction(reduction: Reduction, excerpt: Excerpt) -> str:
    name, found = excerpt_of(type(reduction))
    excerpt.add(found)
    return f"{name}({repr(reduction).partition('(')[2]}"


def program_of_difference(
    model: ModuleRecipe, batches: Sequence[TensorRecipe], cfg: Mapping[Any, Any], problem: str
) -> str:
    """A program in which an instrumented model differs from its plain twin."""
    excerpt = Excerpt()
    if not model.kind.__module__.startswith(("torch.nn.", "taiyi_fx.")):
        excerpt.add(excerpt_of(model.kind)[1])
    lines = [f"torch.manual_seed({model.seed})"] if model.seed else []
    made = ", ".join(map(tensor_text, batches))
    lines += [
        f"model = {model!r}",
        f"batches = [{made}]",
        f"assert_faithful(model, batches, {_cfg_text(cfg, excerpt)})",
    ]
    return complete(f"Not faithful: {problem}", lines, excerpt)


def _cfg_text(cfg: Mapping[Any, Any], excerpt: Excerpt) -> str:
    parts = []
    for key, entries in cfg.items():
        if isinstance(key, str):
            name = quoted(key)
        elif key.__module__.startswith("torch.nn."):
            name = f"nn.{key.__qualname__}"
        else:
            name, found = excerpt_of(key)
            excerpt.add(found)
        parts.append(f"{name}: {_entries_text(entries, excerpt)}")
    return f"{{{', '.join(parts)}}}"


def _entries_text(entries: Any, excerpt: Excerpt) -> str:
    if isinstance(entries, (list, tuple)):
        return f"[{', '.join(_entries_text(entry, excerpt) for entry in entries)}]"
    return named(entries, excerpt) if isinstance(entries, Quantity) else repr(entries)
