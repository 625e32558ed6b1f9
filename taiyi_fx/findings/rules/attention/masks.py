"""Masks of attention that hide the wrong keys, or none where those of all others do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from taiyi_fx.findings.facts.attributes import is_recurrent
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, at_common_steps, in_roles, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_ALL, _SOME = 1 - 1e-6, 1e-4
"""Shares of a query's weight: all of it but for rounding, and so much that no rounding makes it."""
_FEW, _SHARE = 3, 0.34
"""Others without it, of two in modules that are known to be alike; and the largest share of the
siblings that has it: else it is on purpose."""
_EVEN, _HALF, _ONE = 0.9, (0.5, 0.75), (0.8, 1.1)
"""The entropy of attention that is all but even, the share of keys that a triangle leaves, and how
many keys of the weight of the first one are one."""
_CLEARLY, _SHOWN = 0.02, 3
"""The share of a query's weight on later keys that no rounding makes; and names in a sentence."""
_TIMES = 8.0
"""The share of keys that all others may see over that of one."""
_SUM, _VARIES = 1e-6, 1e-3
"""How near to 1 two shares of keys add up, and by how much each varies from step to step."""

TURNED_MASK = Kind(
    "turned_mask",
    "alert",
    "Look at its mask: True allows a key in scaled_dot_product_attention, and hides it in "
    "MultiheadAttention and Transformer",
)
MISSING_MASK = Kind(
    "missing_mask",
    "warning",
    "Look at the mask that this attention is given: a causal one hides all keys that are later "
    "than the query, in each block and each head",
)

_ONE_AHEAD = (
    "Look at the diagonal of the mask: torch.tril(ones) keeps the keys up to the query's own, and "
    "torch.triu(ones, diagonal=1) hides those behind it"
)
READS_AHEAD = Kind(
    "reads_ahead",
    "alert",
    "Give its attentions a causal mask: is_causal=True, or True, or -inf in a mask of floats, at "
    "the keys to be hidden; a mask of floats with 0 and 1 adds these to the scores, and hides "
    "nothing. A recurrent layer must not be bidirectional",
)
UNMASKED_PADDING = Kind(
    "unmasked_padding",
    "note",
    "Give attention a mask of the padding, as src_key_padding_mask, where True hides, or "
    "attention_mask, where 1 shows; what a sample gives does not depend on others then",
)
NARROW_MASK = Kind(
    "narrow_mask",
    "warning",
    "Look at the mask that this attention is given: it hides nearly all keys",
)


def turned_masks(evidence: Evidence) -> Iterator[Finding]:
    """Attentions that see the future alone, or what another attention of the model must not."""
    yield from _of_future(evidence)
    sure = [*_of_padding_alone(evidence)]
    yield from sure or _of_padding(evidence)


def missing_masks(evidence: Evidence) -> Iterator[Finding]:
    """The few attentions of a role that see later keys, where all others never do."""
    for group in in_roles(evidence.of_quantity("AttentionAhead")):
        seeing = [one for one in group if (one.values > _SOME).all() and not _is_of_future(one)]
        blind = [one for one in group if not one.values.any()]
        fewest = _FEW - _are_alike(group, evidence)
        is_odd = len(seeing) <= _SHARE * len(group) and len(blind) >= fewest
        for one in seeing if is_odd else ():
            value = median(one.values)
            text = (
                f"the queries of {one.module!r} give {value:.2g} of their weight to keys that are "
                f"later than they are, those of {len(blind)} others like it nothing"
            )
            yield MISSING_MASK.at(one, 0, text, "0, as of its siblings", value=value)


def _are_alike(group: Sequence[Watched], evidence: Evidence) -> bool:
    """True for attentions in modules that are known to be of one class and of the same sizes."""
    homes = [one.name.rpartition(".")[0] if "()" in one.name else one.name for one in group]
    known = [evidence.model.attributes.get(home) for home in homes]
    return len({own and (own.kind, own.sizes) for own in known}) == 1 and None not in known


def masks_ahead(evidence: Evidence) -> Iterator[Finding]:
    """Masks of a language model by which each query sees one key that is later: the next token.

    Of an attention that begins all but even, each later key that a query sees has as much weight as
    the first key.
    """
    size = _vocabulary(evidence)
    ahead = [one for one in evidence.of_quantity("AttentionAhead") if one.steps[0] == 0]
    if not ahead or not any(known.classes == size for known in evidence.of_losses.values()):
        return
    if all(_sees_one_ahead(one, evidence) for one in ahead):
        value = float(ahead[0].values[0])
        text = (
            f"the queries of {names_of(ahead)} give as much weight to later keys as to the first "
            f"one, {value:.2g}: each sees one key too many, the token that it has to guess"
        )
        yield MISSING_MASK.at(ahead[0], 0, text, "0 of later keys", advice=_ONE_AHEAD)


def reading_ahead(evidence: Evidence) -> Iterator[Finding]:
    """Models whose targets are the next tokens, and all of whose layers see these."""
    of_next = [
        (loss, graph.shifted[0])
        for loss, graph in evidence.logged.graphs
        if graph.shifted is not None and graph.shifted[1] == 1
    ]
    ahead = [*evidence.of_quantity("AttentionAhead")]
    recurrent = [
        name for name in evidence.model.attributes if is_recurrent(name, evidence.model.attributes)
    ]
    sides = [evidence.model.attributes[name].settings.get("bidirectional") for name in recurrent]
    both = [repr(name) for name in (*(one.module for one in ahead), *recurrent)]
    if not of_next or not both or [*masks_ahead(evidence)]:
        return
    if all(sides) and all((one.values > _CLEARLY).all() for one in ahead):
        loss, module = of_next[0]
        seen = "see the tokens that they are to guess"
        text = (
            f"the targets of {loss.quantity!r} are the tokens that {module!r} is given one place "
            f"later, and {', '.join(both[:_SHOWN])}{', ...' * (len(both) > _SHOWN)} {seen}"
        )
        if ahead:
            text += f": {median(ahead[0].values):.0%} of the weight is on keys that are later"
        yield READS_AHEAD.at(loss, 0, text, "0 of later tokens", module="")


def unmasked_padding(evidence: Evidence) -> Iterator[Finding]:
    """Attentions that see all keys, of sequences of which many end in padding.

    A warning where the embedding itself calls that token its padding.
    """
    paddings = [graph.padding for _, graph in evidence.logged.graphs if graph.padding is not None]
    ahead = evidence.by_module("AttentionAhead")
    seeing = [
        one
        for one in evidence.of_quantity("AttentionAllowed")
        if (one.values == 1).all() and one.module in ahead and ahead[one.module].values.all()
    ]
    if paddings and seeing:
        padding = paddings[0]
        of = f" that {padding.module!r} is given" * bool(padding.module)
        text = (
            f"the queries of {names_of(seeing)} see all keys, also those of padding: "
            f"{padding.sequences:.0%} of the sequences{of} end in a run of {padding.token}"
        )
        own = evidence.model.attributes.get(padding.module)
        is_named = own is not None and own.numbers.get("padding_idx") == padding.token
        severity = "warning" if is_named else "note"
        others = {"module": "", "severity": severity}
        yield UNMASKED_PADDING.at(seeing[0], 0, text, "all keys but padding", **others)


def _vocabulary(evidence: Evidence) -> int:
    """The number of rows of the first embedding; 0 if there is none."""
    first = next(evidence.of_quantity("InputMean"), None)
    own = evidence.model.attributes.get(first.name) if first else None
    shape = dict(own.sizes).get("", ()) if own else ()
    return shape[0] if len(shape) > 1 else 0


def _sees_one_ahead(ahead: Watched, evidence: Evidence) -> bool:
    first = {
        name: float(one.values[0])
        for name in ("AttentionEntropy", "AttentionSink", "AttentionAllowed")
        for one in evidence.of_quantity(name)
        if one.module == ahead.module and one.steps[0] == 0
    }
    is_even = first.get("AttentionEntropy", 0.0) >= _EVEN
    is_half = _HALF[0] < first.get("AttentionAllowed", 1.0) < _HALF[1]
    times = float(ahead.values[0]) / max(first.get("AttentionSink", 0.0), 1e-12)
    return is_even and is_half and _ONE[0] < times < _ONE[1]


def narrow_masks(evidence: Evidence) -> Iterator[Finding]:
    """The one attention of a role whose queries may see next to nothing of what others' may."""
    every = (s for s in evidence.of_quantity("AttentionAllowed") if len(s.values) >= STEPS)
    for group in in_roles(every):
        least = min(group, key=lambda one: float(one.values.max()))
        others = [float(other.values.min()) for other in group if other is not least]
        value = float(least.values.max())
        if len(others) >= _FEW and min(others) >= _TIMES * value:
            text = (
                f"the queries of {least.module!r} may see {value:.2g} of the keys, those of "
                f"{len(others)} others like it {median(others):.2g}"
            )
            yield NARROW_MASK.at(least, 0, text, f"{median(others):.2g}, as of its siblings")


def _of_future(evidence: Evidence) -> Iterator[Finding]:
    for one in evidence.of_quantity("AttentionAhead"):
        if _is_of_future(one):
            text = (
                f"the queries of {one.module!r} see keys that are later than they are, and no "
                "others: its causal mask is inverted"
            )
            yield TURNED_MASK.at(one, 0, text, "0, as of causal attention")


def _is_of_future(one: Watched) -> bool:
    return len(one.values) >= _FEW and bool((one.values >= _ALL).all())


def _of_padding_alone(evidence: Evidence) -> Iterator[Finding]:
    """Attentions that see as many keys as an embedding's indices have padding, in each batch."""
    padding = _varying(evidence, "PaddingRate")
    for one in _varying(evidence, "AttentionAllowed"):
        same = next((s for s in padding if _is_same(one, s, least=STEPS)), None)
        if same is not None:
            text = (
                f"{one.module!r} sees padding alone: its queries may see as many keys as are "
                f"padding among the indices of {same.module!r}, in each batch: its mask is inverted"
            )
            value, expected = float(one.values[0]), "all keys but padding"
            yield TURNED_MASK.at(one, 0, text, expected, value=value)


def _varying(evidence: Evidence, quantity: str) -> list[Watched]:
    """The series of a quantity that differ from batch to batch, with enough numbers."""
    every = evidence.of_quantity(quantity)
    return [s for s in every if len(s.values) >= STEPS and np.ptp(s.values) > _VARIES]


def _of_padding(evidence: Evidence) -> Iterator[Finding]:
    """Two attentions of which one sees exactly the keys that the other does not, in each batch."""
    varying = _varying(evidence, "AttentionAllowed")
    # The layers of an encoder all have one mask, and the same shares to the bit.
    distinct = {(s.steps.tobytes(), s.values.tobytes()): s for s in varying}
    for first, second in combinations(distinct.values(), 2):
        if _add_up(first, second):
            like_first = [s for s in varying if _is_same(s, first)]
            few = [s for s in varying if _is_same(s, second)]
            many, few = (few, like_first) if len(like_first) < len(few) else (like_first, few)
            text = (
                f"{names_of(few)} may see the share of keys that {names_of(many)} may not, in each "
                "batch: the mask of one of the two is inverted"
            )
            yield TURNED_MASK.at(few[0], 0, text, "the same share", severity="warning")
            return


def _add_up(first: Watched, second: Watched) -> bool:
    a, b = at_common_steps([first, second])
    return len(a.steps) >= STEPS and bool((np.abs(a.values + b.values - 1) < _SUM).all())


def _is_same(one: Watched, other: Watched, *, least: int = 1) -> bool:
    a, b = at_common_steps([one, other])
    return len(a.steps) >= least and bool((np.abs(a.values - b.values) < _SUM).all())
