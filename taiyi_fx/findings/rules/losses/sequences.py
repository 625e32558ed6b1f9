"""Losses by targets that are the inputs, and by the first place of causal attention."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.attributes import is_recurrent
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

COPIED_TARGETS = Kind(
    "copied_targets",
    "note",  # what is squeezed through few numbers is learnt so on purpose
    "Shift the labels by one: what the model returns at a place is to be compared with the next "
    "token, logits[:, :-1] with ids[:, 1:]; a decoder is given ids[:, :-1]",
)


def copied_targets(evidence: Evidence) -> Iterator[Finding]:
    """Losses whose targets are what an embedding is given: an alert if an attention is causal.

    As that of a decoder is, whose encoder's sees all. A warning if one layer reads the places in
    their order, as no decoder is behind it.
    """
    is_causal = any(not one.values.any() for one in evidence.of_quantity("AttentionAhead"))
    for loss, graph in evidence.logged.graphs:
        if graph.copied:
            text = (
                f"the targets of {loss.quantity!r} are the indices that {graph.copied!r} is given, "
                "place by place: the model learns to copy"
            )
            severity = "alert" if is_causal else "warning" if _reads_once(evidence) else "note"
            expected = "the next token"
            yield COPIED_TARGETS.at(loss, 0, text, expected, module="", severity=severity)


def _reads_once(evidence: Evidence) -> bool:
    """True for a model with one recurrent layer, from the first place to the last."""
    known = evidence.model.attributes
    layers = [name for name in known if is_recurrent(name, known)]
    return len(layers) == 1 and known[layers[0]].settings.get("bidirectional") is False


HELD_TARGETS = Kind(
    "held_targets",
    "alert",
    "Leave them out of the inputs: of a window that is to tell what comes next, the target is the "
    "entry behind it; of a table, the column of the target is no feature",
)
_SHOWN = 3


def held_targets(evidence: Evidence) -> Iterator[Finding]:
    """Losses whose targets are among the entries of what the model is given."""
    for loss, graph in evidence.logged.graphs:
        if graph.held is not None:
            module, entries, count = graph.held
            of = f"that {module!r} is given" if module else "that the model is given"
            shown = ", ".join(map(str, entries[:_SHOWN])) + ", ..." * (len(entries) > _SHOWN)
            text = (
                f"the targets of {loss.quantity!r} are among the {count} entries of each sample "
                f"{of}, at {shown} (from 0): the model is given what it is to tell"
            )
            yield HELD_TARGETS.at(loss, 0, text, "targets that it is not given", module="")


SHIFTED_TARGETS = Kind(
    "shifted_targets",
    "warning",
    "Shift the labels once: Hugging Face's models do so themselves, and want labels=input_ids",
)
_NUMBERS = {2: "two", 3: "three"}


def shifted_targets(evidence: Evidence) -> Iterator[Finding]:
    """Losses whose targets are the tokens after the next one."""
    for loss, graph in evidence.logged.graphs:
        if graph.shifted is not None and graph.shifted[1] in _NUMBERS:
            module, by = graph.shifted
            text = (
                f"the targets of {loss.quantity!r} are the indices that {module!r} is given "
                f"{_NUMBERS[by]} places later: the model learns to skip tokens"
            )
            yield SHIFTED_TARGETS.at(loss, 0, text, "the next token", module="")


FIRST_PLACE = Kind(
    "first_place",
    "warning",
    "Take the last place of each sequence, x[:, -1], or the last that is no padding; the first one "
    "is for models whose places all see each other",
)


def first_places(evidence: Evidence) -> Iterator[Finding]:
    """Losses that take the first place alone, of a model whose attentions are all causal."""
    ahead = [*evidence.of_quantity("AttentionAhead")]
    if not ahead or any(one.values.any() for one in ahead):
        return
    for loss, graph in evidence.logged.graphs:
        if graph.first_place is not None:
            of = f"of what {graph.first_place!r} makes, " if graph.first_place else ""
            text = (
                f"{of}{loss.quantity!r} takes the first place of each sequence alone, and "
                "attention is causal: this place sees itself, and nothing of the rest"
            )
            yield FIRST_PLACE.at(loss, 0, text, "the last place", module="")


_PADDING = (
    "Give the loss ignore_index, the index of the padding, or put -100 where the targets are "
    "padding"
)
PADDED_TARGETS = Kind("padded_targets", "warning", _PADDING)
PADDED_PLACE = Kind(
    "padded_place",
    "warning",
    "Take the last place of each sequence that is no padding, x[range(n), lengths - 1], or a mean "
    "over such places; pad on the left; or give a recurrent layer a packed sequence, and take its "
    "last state",
)


def padded(evidence: Evidence) -> Iterator[Finding]:
    """Losses that have padding for targets, or take what stands at the place of padding alone."""
    for loss, graph in evidence.logged.graphs:
        padding = graph.padding
        if padding is None:
            continue
        of = f" that {padding.module!r} is given" * bool(padding.module)
        shown = f"{padding.sequences:.0%} of the sequences{of} end in a run of {padding.token}"
        if padding.targets and graph.shifted is not None:
            text = f"{padding.targets:.0%} of the targets of {loss.quantity!r} are padding: {shown}"
            expected = "targets that are no padding"
            yield PADDED_TARGETS.at(loss, 0, text, expected, module="", value=padding.targets)
        if graph.last_place is not None:
            text = (
                f"{loss.quantity!r} takes the last place of each sequence alone, and {shown}, "
                "which is padding"
            )
            expected = "the last place that is no padding"
            yield PADDED_PLACE.at(loss, 0, text, expected, module="", value=padding.sequences)


IGNORED_CLASS = Kind(
    "ignored_class",
    "warning",
    "Give the padding a number of its own, -100, which is ignore_index by default: class and "
    "padding are told apart by that alone, and what is left out is never learnt",
)


def ignored_classes(evidence: Evidence) -> Iterator[Finding]:
    """Classes that losses leave out where tokens stand that are no padding."""
    for loss, graph in evidence.logged.graphs:
        if graph.ignored is not None:
            number, share, tokens = graph.ignored
            text = (
                f"{loss.quantity!r} leaves out class {number} by ignore_index, {share:.0%} of its "
                f"targets, and at {tokens:.0%} of these places tokens stand that are no padding"
            )
            yield IGNORED_CLASS.at(loss, 0, text, "padding alone", module="", value=share)
