"""Targets that stand among what the model is given, by what autograd has saved of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import (
    Uses,
    name_of,
    operands_of,
    saved_by,
)
from taiyi_fx.findings.facts.given_to_losses import OF_ERRORS
from taiyi_fx.findings.facts.squashed import OF_LOGARITHMS

_DATA = {
    "Addmm": (1, "mat1"),
    "Mm": (0, "self"),
    "Convolution": (0, "input"),
    "MkldnnRnnLayer": (0, "input"),
    "CudnnRnn": (0, "input"),
}
"""Functions of layers, each with the place of what it is given, and the name of it as saved."""
_FEWEST, _LOOKED_AT = 16, 64
"""Samples by which it is no chance, and those that are looked at."""
_MOST = 32
"""Targets of one sample that are looked for."""
_AXES = 2
"""Those of samples and their entries; further ones lie before or behind."""
_PAIRS = 20_000_000
"""Comparisons beyond which none is made: an image has 150,000 entries."""
_SHARE = 4
"""Times as many entries as targets: what returns most of what it is given is to do so."""


class HeldTargets(NamedTuple):
    """The targets of a loss that are entries of what the model is given.

    Attributes:
        module: The module that is given them; empty if it is not known.
        entries: The places of the targets among the entries of a sample.
        of: The number of entries of a sample.
    """

    module: str
    entries: tuple[int, ...]
    of: int


def held_targets(uses: Uses) -> HeldTargets | None:
    """The targets of the one error or cross entropy of a loss, if the model is given all of them.

    None after a backward, which frees what autograd has saved, and where nothing but the targets
    is given, or little else, as to an autoencoder.

    Args:
        uses: The functions that made the loss.
    """
    ends = [x for x in uses.nodes if name_of(x) in (*OF_ERRORS, *OF_LOGARITHMS)]
    if len(ends) != 1 or (targets := saved_by(ends[0], "target")) is None:
        return None
    if not targets.ndim or (samples := len(targets)) < _FEWEST:
        return None
    wanted = targets[:_LOOKED_AT].flatten(1) if targets.ndim > 1 else targets[:_LOOKED_AT, None]
    if wanted.shape[1] > _MOST or not _varies(wanted):
        return None
    for node in uses.nodes:
        for given in _given(node, samples):
            pairs = given.numel() * wanted.shape[1]
            if given.shape[1] < _SHARE * wanted.shape[1] or pairs > _PAIRS:
                continue
            is_same = (given[:, :, None] == wanted[:, None]).all(0)
            if bool(is_same.any(0).all()):
                at = is_same.int().argmax(0).tolist()
                return HeldTargets(uses.owner(node), (*at,), given.shape[1])
    return None


def _given(node: Any, samples: int) -> Iterator[Any]:
    """The data that a layer is given, some samples each with all of its entries."""
    place, name = _DATA.get(name_of(node), (0, ""))
    if not name or operands_of(node)[place] is not None:
        return
    data = saved_by(node, name)
    if data is None or data.ndim < _AXES:
        return
    if len(data) == samples:
        yield data[:_LOOKED_AT].flatten(1)
    elif data.ndim > _AXES and data.shape[1] == samples:  # time comes first
        yield data[:, :_LOOKED_AT].transpose(0, 1).flatten(1)
    elif len(data) % samples == 0:
        steps = len(data) // samples
        yield data.unflatten(0, (samples, steps))[:_LOOKED_AT].flatten(1)
        yield data.unflatten(0, (steps, samples))[:, :_LOOKED_AT].transpose(0, 1).flatten(1)


def _varies(wanted: Any) -> bool:
    """True if each target is another for some samples."""
    return bool((wanted != wanted[:1]).any(0).all())
