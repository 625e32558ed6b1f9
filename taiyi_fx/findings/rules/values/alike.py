"""Inputs, outputs and units that are all alike."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS, ends, since
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.shapes import rows_of
from taiyi_fx.findings.facts.watched import Watched, at_common_steps, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.rules.values.inputs import is_given_the_batch, is_made_within
from taiyi_fx.findings.rules.values.ranks import RANK_COLLAPSE, is_given_other_rows
from taiyi_fx.findings.rules.values.sizes import BIAS

_ALIKE, _MUCH = 1e-4, 1e-2
"""The share of the mean square that is variance: rows within a percent of each other, and rows that
a module makes alike by itself."""
_FEW = 2
_GROWN = 3.0
"""The factor by which a share has grown that is to become more."""
_MOSTLY = 0.9
"""The size of a bias beside what its module returns."""
_LARGE = 100
"""Entries of an embedding that is more than one of types or languages, which may all be alike."""
_OF_DATA = (
    "Look at the data: at how they are scaled and centred, and whether each batch has other samples"
)
_OF_IT = (
    "Look for a large bias or offset before it, for what saturates it, and for units that are all "
    "alike"
)
_CHOSEN = (
    "Look at what it chooses by: at its scale beside that of the entries and at the learning rate; "
    "a term of the loss may spread the choices, and entries that are not chosen be set anew"
)
_INDICES = "Look at the vocabulary and the tokenizer: tokens that are not known are all one index"


def alike_rows(evidence: Evidence) -> Iterator[Finding]:
    """The first module whose rows are all alike, from the start, and indices that are all one."""
    yield from _of_indices(evidence)
    before: float | None = None
    last: Watched | None = None
    offset = _mostly_bias(evidence)
    for one in evidence.of_quantity("OutputVariation"):
        share = median(one.values)
        if len(one.values) < _FEW or not np.isfinite(share) or one.name in offset:
            continue
        is_growing = one.values[-1] > _GROWN * one.values[0]
        is_alike = bool((one.values <= _ALIKE).all()) and share > 0 and not is_growing
        is_first = before is None and is_given_the_batch(one.module, evidence)
        is_odd = is_alike and (is_first or (before is not None and before >= _MUCH))
        if is_odd and not _begins_alike(one, last, evidence):
            text = (
                f"the rows that {one.module!r} returns differ from each other by "
                f"{np.sqrt(share):.1e} of their size"
            )
            others = {"value": share, "advice": _OF_DATA if is_first else _OF_IT}
            yield RANK_COLLAPSE.at(one, 0, text, "rows that differ", **others)
            return
        before, last = share, one


def _begins_alike(one: Watched, before: Watched | None, evidence: Evidence) -> bool:
    """True for what is alike at first in a sound model, too; asked of one that is to be named.

    A token of a class, which is one for all behind branches that begin at next to nothing, and what
    a softmax, also that of an attention, makes of logits that are small yet.
    """
    is_token = evidence.parameters.has_layer_scales and is_given_other_rows(one, before, evidence)
    attentions = {s.module for s in evidence.of_quantity("AttentionEntropy")}
    is_of_shares = attentions & {*evidence.flow.modules_before(one.module, evidence.called)}
    return is_token or bool(is_of_shares) or "softmax" in evidence.flow.before_module(one.module)


def _mostly_bias(evidence: Evidence) -> frozenset[str]:
    """The modules that return their own bias for the most part, as a gate's layer is to begin."""
    biases = {s.module: median(s.values) for s in evidence.of_quantity("ParameterRMS.bias")}
    return frozenset(
        s.name
        for s in evidence.of_quantity("OutputRMS")
        if (own := biases.get(s.name, 0.0)) < BIAS and own > _MOSTLY * median(s.values)
    )


def _of_indices(evidence: Evidence) -> Iterator[Finding]:
    """The first embedding that is given one index alone.

    A small one where none is given others from step to step: types are all one while tokens are
    others, and positions are the same at each.
    """
    means = evidence.by_module("InputMean")
    deviations = [s for s in evidence.of_quantity("InputStd") if s.module in means]
    yield from _of_chosen_indices(deviations, evidence)
    same = [s for s in deviations if len(s.values) >= STEPS and not s.values.any()]
    same = [s for s in same if not is_made_within(s.module, evidence)]
    moves = any(len({*one.values}) > 1 for s in deviations for one in (s, means[s.module]))
    if moves:
        same = [s for s in same if _entries_of(s, evidence) >= _LARGE or _is_of_places(s)]
    if same:
        text = f"all indices that {same[0].module!r} is given are one and the same"
        found = {"value": float(means[same[0].module].values[0]), "advice": _INDICES}
        yield RANK_COLLAPSE.at(same[0], 0, text, "indices that differ", **found)


def _is_of_places(one: Watched) -> bool:
    """True for an embedding whose name says that each place of a sequence has an entry."""
    last = one.name.rpartition(".")[2]
    return last == "wpe" or "pos" in last


def _entries_of(one: Watched, evidence: Evidence) -> int:
    """The number of entries of an embedding; 0 if it is not known."""
    own = evidence.model.attributes.get(one.name)
    entries = None if own is None else own.numbers.get("num_embeddings")
    return entries if type(entries) is int else 0


def _of_chosen_indices(deviations: list[Watched], evidence: Evidence) -> Iterator[Finding]:
    """The first embedding of which the model itself comes to choose one entry alone."""
    means = evidence.by_module("InputMean")
    for series in deviations:
        mean, deviation = at_common_steps([means[series.module], series])
        is_one = (deviation.values == 0) & (mean.values == mean.values[-1])
        if ends(is_one) and is_made_within(series.module, evidence):
            i = since(is_one)
            text = (
                f"from step {mean.steps[i]} on all indices that {series.module!r} is given are "
                f"{mean.values[i]:.6g}, as the model itself chooses them"
            )
            by = evidence.operations_before(series.module)
            text += f", by {by}" if by else ""
            yield RANK_COLLAPSE.at(mean, i, text, "indices that differ", advice=_CHOSEN)
            return


_ONE = 1e-4
"""Above one direction: rounding."""
_FEWEST = 3
"""Layers that do not all have one direction by chance."""
_WIDE = 4
"""Features of a layer that could have several."""
_ROWS = 8
"""Rows that could differ in several ways: two rows differ in one."""


def same_units(evidence: Evidence) -> Iterator[Finding]:
    """Linear layers that all begin with one direction, as those of one number for a weight do.

    The gradient of such units is the same, and they stay alike. Siblings with several directions,
    beside which one is odd, are not needed. But all linear layers have to be read, and the first
    to be given more than a number: else what comes in may vary along one direction itself.
    """
    known = [
        (s, evidence.model.attributes.get(s.name))
        for s in evidence.of_quantity("ParticipationRatio")
    ]
    layers = [s for s, own in known if own is not None and min(own.features) >= _WIDE]
    if not evidence.is_from_the_start or len(layers) < _FEWEST:
        return
    widths = {
        n: min(own.features) for n, own in evidence.model.attributes.items() if any(own.features)
    }
    needed = {next(iter(widths)), *(name for name, width in widths.items() if width >= _WIDE)}
    if not needed <= {s.name for s in layers}:
        return
    if all(
        s.values[0] <= 1 + _ONE and rows_of(evidence.flow.shape_before(s.module)) >= _ROWS
        for s in layers
    ):
        text = (
            f"the outputs of {names_of(layers)} vary along one direction each, as do those of all"
        )
        text += " linear layers: the units of each compute the same"
        yield RANK_COLLAPSE.at(layers[0], 0, text, "several directions", module="")
