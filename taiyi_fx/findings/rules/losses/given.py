"""Losses that are given similarities of rows with themselves, or what a dropout left."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_KEEPING = (".Identity", ".Flatten", ".Unflatten")
"""Classes of torch that hand numbers on as they are."""

OWN_PAIRS = Kind(
    "own_pairs",
    "warning",
    "Mask the diagonal before the softmax, as by logits.masked_fill(torch.eye(n, dtype=bool), "
    "float('-inf')): each row is the most like itself, and is no example of another",
)
DROPPED_OUTPUT = Kind(
    "dropped_output",
    "warning",
    "Put the dropout before the last layer: behind it, what the loss is given is 0 for some "
    "samples, or too large, whatever the model learns",
)


UNREACHABLE_TARGETS = Kind(
    "unreachable_targets",
    "warning",
    "Leave the activation behind the last layer away, or bring the targets into its range",
)


def unreachable_targets(evidence: Evidence) -> Iterator[Finding]:
    """Errors whose targets an activation behind the last layer cannot return."""
    for loss, graph in evidence.logged.graphs:
        for one in graph.out_of_reach[:1]:
            behind = f" behind {one.module!r}" * bool(one.module)
            reach = (
                f"at least {one.low:g}" if one.high == inf else f"from {one.low:g} to {one.high:g}"
            )
            text = (
                f"{loss.quantity!r} is of what a {one.function}{behind} returns, which is {reach}: "
                f"{one.share:.0%} of its targets lie beyond"
            )
            others = {"module": one.module, "functions": (one.function,)}
            yield UNREACHABLE_TARGETS.at(loss, 0, text, f"targets of {reach}", **others)


BLANK_TARGETS = Kind(
    "blank_targets",
    "warning",
    "Number the labels from 1 on, and leave 0 to the blank; or name another: "
    "ctc_loss(..., blank=number_of_labels), with one output more than there are labels",
)


def blank_targets(evidence: Evidence) -> Iterator[Finding]:
    """CTC losses with targets that are the blank, which is between labels and is none itself."""
    for loss, graph in evidence.logged.graphs:
        if graph.blank_targets > 0:
            text = (
                f"{graph.blank_targets:.0%} of the targets of {loss.quantity!r} are the blank of "
                "its ctc_loss, which stands for no label: these can never be told"
            )
            yield BLANK_TARGETS.at(loss, 0, text, "no target that is the blank", module="")


FLAT_FUNCTION = Kind(
    "flat_function",
    "alert",
    "Let the gradient pass by a straight-through estimator, x + (torch.round(x) - x).detach(); or "
    "detach what comes before, if nothing of it is to learn",
)


def flat_functions(evidence: Evidence) -> Iterator[Finding]:
    """Roundings and the like behind which weights get gradients of exactly 0."""
    for loss, graph in evidence.logged.graphs:
        if graph.flat:
            first, more = graph.flat[-1], len(graph.flat) - 1  # nodes come from the loss back
            of = f"what {first.module!r} makes" if first.module else "a tensor"
            text = (
                f"on the way to {loss.quantity!r}, {of} goes through {first.function}, whose "
                "gradient is 0 everywhere: weights before it learn nothing"
            )
            text += f"; so do {more} more" if more else ""
            yield FLAT_FUNCTION.at(loss, 0, text, "a gradient", module=first.module)


def own_pairs(evidence: Evidence) -> Iterator[Finding]:
    """Cross entropies of a choice among all rows, of which each may choose itself."""
    for loss, graph in evidence.logged.graphs:
        for one in graph.own_pairs[:1]:
            text = (
                f"on the way to {loss.quantity!r}, each of {one.made[0]} rows chooses among the "
                "similarities with all rows, the one with itself among them"
            )
            yield OWN_PAIRS.at(loss, 0, text, "a masked diagonal", module=one.module)


def dropped_outputs(evidence: Evidence) -> Iterator[Finding]:
    """A dropout that is the last module, and whose output a loss is given as it is."""
    every = _that_do_something(evidence)
    last = every[-1] if every else ""
    settings = evidence.model.settings.get(last)
    own = evidence.model.attributes.get(last)
    if settings is None or own is None or not (settings.drops and own.numbers.get("training")):
        return
    before = {name.partition("@")[0] for name in evidence.flow.modules_before(last, every)}
    for loss, graph in evidence.logged.graphs:
        for layer in before.intersection(graph.last_products) if len(before) == 1 else ():
            text = (
                f"{last!r} drops {settings.drops:.0%} of what {layer!r} returns, and "
                f"{loss.quantity!r} is given the rest as what the model tells"
            )
            yield DROPPED_OUTPUT.at(loss, 0, text, "no dropout", module=last)


def _that_do_something(evidence: Evidence) -> list[str]:
    """The modules without parts that change numbers, as no Identity and no Flatten does."""
    order, known = evidence.flow.order, evidence.model.attributes
    around = {name[:i] for name in order for i, letter in enumerate(name) if letter == "."}
    leaves = (name for name in order if name in known and name not in around)
    return [name for name in leaves if not known[name].kind.endswith(_KEEPING)]


MASKED_PRODUCT = Kind(
    "masked_product",
    "warning",
    "Hide scores by scores.masked_fill(mask == 0, float('-inf')) before the softmax: times 0 they "
    "are 0, of which a softmax makes as much as of others",
)
MOVING_TARGET = Kind(
    "moving_target",
    "note",
    "Nothing is wrong where two outputs are to come nearer to each other; a target, as the value "
    "of the next state or what a teacher says, is computed under torch.no_grad, or detached",
)


def masked_products(evidence: Evidence) -> Iterator[Finding]:
    """Softmaxes of scores that a product with 0 and 1 was to mask."""
    for loss, graph in evidence.logged.graphs:
        for one in graph.masked_by_product[:1]:
            behind = f" behind {one.module!r}" * bool(one.module)
            text = (
                f"on the way to {loss.quantity!r}, a softmax{behind} is given scores times a mask "
                "of 0 and 1, which hides nothing"
            )
            yield MASKED_PRODUCT.at(loss, 0, text, "-inf where the mask is 0", module=one.module)
            return


def moving_targets(evidence: Evidence) -> Iterator[Finding]:
    """Errors and divergences of which both sides get gradients."""
    for loss, graph in evidence.logged.graphs:
        for module in graph.moving_targets[:1]:
            by = f", by {module!r}" * bool(module)
            text = (
                f"the target of {loss.quantity!r} is computed{by}, and gets a gradient, as what is "
                "to reach it does: it moves to where that is"
            )
            yield MOVING_TARGET.at(loss, 0, text, "a target without a gradient", module=module)


PULLED_ALONE = Kind(
    "pulled_alone",
    "warning",
    "Detach one side, as the target of a predictor (a stop-gradient) or what a slow copy returns; "
    "or add what holds different samples apart: other samples of the batch, a margin, a variance",
)


def pulled_alone(evidence: Evidence) -> Iterator[Finding]:
    """Losses that pull two outputs together, both of which move, and hold nothing apart."""
    for loss, graph in evidence.logged.graphs:
        if graph.pulled_alone is not None:
            text = (
                f"{loss.quantity!r} pulls two outputs of the model together, both of them get "
                "gradients, and nothing holds other samples apart: it is the least where all "
                "samples have one and the same output"
            )
            module = graph.pulled_alone
            yield PULLED_ALONE.at(loss, 0, text, "a side without a gradient", module=module)


_MOSTLY = 0.25
ODD_RATIOS = Kind(
    "odd_ratios",
    "warning",
    "Take the logarithms of the actions that were played, as they were stored with them, and give "
    "the new ones the same actions and inputs: before its first step a policy is its old self",
)


def odd_ratios(evidence: Evidence) -> Iterator[Finding]:
    """Ratios of a policy's probabilities to its old ones that are not 1 before its first step."""
    for loss, graph in evidence.logged.graphs:
        share = graph.odd_ratios
        if share is not None and share >= _MOSTLY and evidence.is_from_the_start:
            text = (
                f"{share:.0%} of the ratios of new probabilities to old ones in {loss.quantity!r} "
                "differ from 1 before the first step, when nothing is new"
            )
            yield ODD_RATIOS.at(loss, 0, text, "1", module="", value=share)
