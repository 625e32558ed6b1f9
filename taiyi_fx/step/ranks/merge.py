"""The statistics of all ranks become one, in the order of the ranks."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

from taiyi_fx.passes.ir import Reading, State, merge_of_ranks
from taiyi_fx.step.ranks.bucket import Key, Rows
from taiyi_fx.step.vectorized import in_batches

_FEW = 64
"""Merges that are made one by one; of more, all at once."""
_SMALL = 4096
"""Elements of a statistic up to which that pays."""


def merged(rows: Rows, readings: Mapping[int, Reading]) -> dict[Key, State | Exception]:
    """The merged statistic of each reading that any rank has, or the error of its merge.

    Args:
        rows: The statistics that the ranks sent.
        readings: The readings by number.
    """
    found: dict[Key, State | Exception] = {}

    def kind(key: Key) -> Hashable:
        shapes = rows.common_shapes(key)
        return shapes and (readings[key[1]].reduction, shapes, rows.dtypes(key))

    def together(keys: list[Key]) -> State | None:
        return _together(rows, keys, readings[keys[0][1]].reduction)

    done, alone = in_batches(rows.present, kind, together)
    for keys, parts in done:
        columns = zip(*(part.unbind() for part in parts), strict=True)
        found.update(zip(keys, columns, strict=True))
    found.update((key, _one_by_one(rows, key, readings)) for key in alone)
    return found


def _one_by_one(rows: Rows, key: Key, readings: Mapping[int, Reading]) -> State | Exception:
    places = rows.present[key].nonzero().flatten().tolist()
    try:
        first, *others = (rows.state(key, place) for place in places)
        if not others:
            return tuple(
                part.clone() for part in first
            )  # so that the memory of the exchange can be freed
        return functools.reduce(merge_of_ranks(readings[key[1]].reduction), others, first)
    except Exception as error:  # noqa: BLE001 - monitoring never ends a run: reported by name
        return error


def _together(rows: Rows, keys: list[Key], reduction: Any) -> State | None:
    """The merged statistics of all keys along a first axis; None where that does not pay.

    Raises:
        Exception: Whatever the merge raises, such as one that looks at its numbers.
    """
    places, shapes = len(rows.present[keys[0]]), rows.common_shapes(keys[0]) or ()
    size = sum(math.prod(shape) for shape in shapes)
    if len(keys) * (places - 1) <= _FEW or size > _SMALL:
        return None
    present = torch.stack([rows.present[key] for key in keys], dim=1)
    each = [rows.states(key, shapes) for key in keys]
    # Ranks by readings by elements; neighbours are merged, half as many each time.
    parts = tuple(torch.stack(column, dim=1) for column in zip(*each, strict=True))
    while len(present) > 1:
        parts, present = _halved(reduction, parts, present)
    return tuple(part[0] for part in parts)


def _halved(reduction: Any, parts: State, present: Tensor) -> tuple[State, Tensor]:
    half = len(present) // 2
    a, b = (tuple(p[i : 2 * half : 2] for p in parts) for i in (0, 1))
    has_a, has_b = present[0 : 2 * half : 2], present[1 : 2 * half : 2]
    both = torch.vmap(torch.vmap(merge_of_ranks(reduction)))(a, b)
    chosen = []
    for of_both, of_a, of_b, whole in zip(both, a, b, parts, strict=True):
        if (of_both.shape, of_both.dtype) != (of_a.shape, of_a.dtype):
            raise ValueError("the merged statistic is larger: those of all ranks differ in shape")
        mask = (slice(None), slice(None), *[None] * (of_a.ndim - 2))
        one = torch.where(has_a[mask], of_a, of_b)
        merged = torch.where((has_a & has_b)[mask], of_both, one)
        chosen.append(torch.cat([merged, whole[2 * half :]]))
    return tuple(chosen), torch.cat([has_a | has_b, present[2 * half :]])
