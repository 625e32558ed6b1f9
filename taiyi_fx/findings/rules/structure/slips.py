"""Calls whose result is thrown away, and dropouts that know nothing of evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.slips import Slip
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

DROPPED_RESULT = Kind(
    "dropped_result",
    "warning",
    "It returns another tensor, and leaves the one that it takes as it is: write "
    "x = x.add(y), or x.add_(y)",
)
ALWAYS_DROPPING = Kind(
    "dropout_in_evaluation",
    "warning",
    "Call it with training=self.training, or take nn.Dropout, which model.eval() turns off",
)


BATCH_AS_PLACES = Kind(
    "batch_as_places",
    "warning",
    "Take the entries of the places along the second axis, pe[: x.size(1)].transpose(0, 1), as the "
    "batch is the first axis of what the model's layers take",
)
ADDS_NOTHING = Kind(
    "adds_nothing",
    "warning",
    "Make it an nn.Parameter, if it is to be learnt, or register_buffer it and fill it: a plain "
    "tensor is not trained, not saved, and not moved with the model",
)
TORN = Kind(
    "torn_view",
    "warning",
    "A view keeps the order of the numbers, so that samples, tokens or heads are mixed: take "
    "x.transpose(0, 1) or permute to exchange axes",
)
CONSTANT_PENALTY = Kind(
    "constant_penalty",
    "alert",
    "Compute the derivative with create_graph=True: without it the term is a number to backward, "
    "and no weight feels it",
)
LATE_CLIPPING = Kind(
    "late_clipping",
    "warning",
    "Clip between backward and the optimizer's step",
)
RESEEDED = Kind(
    "reseeded",
    "warning",
    "Seed once, before the loop: in it each step draws the same noise, dropout and samples",
)
_SEEN = {
    "seed": "begins the random numbers anew in each step of the training",
    "clip": (
        "comes when the optimizer's step is over, and before the next backward: it clips nothing "
        "that a step is taken by"
    ),
    "penalty": "keeps no graph, and a term of the loss is made of it: that has no gradient",
    "torn": "views a tensor by its own sizes in another order, which mixes the numbers of its axes",
    "nothing": "adds a tensor of zeros that is neither a parameter nor a buffer",
    "thrown": "throws away what it returns",
    "dropout": "drops out in evaluation, too, as it is not told whether the model trains",
    "places": (
        "takes as many places as there are samples, and gives one to each sample: the batch is the "
        "first axis here"
    ),
}


def slips(evidence: Evidence) -> Iterator[Finding]:
    """The first slip of each kind in the source of the model's modules."""
    every = [(name, slip) for name, known in evidence.model.slips.items() for slip in known]
    kinds = {
        "penalty": CONSTANT_PENALTY,
        "clip": LATE_CLIPPING,
        "seed": RESEEDED,
        "nothing": ADDS_NOTHING,
        "thrown": DROPPED_RESULT,
        "dropout": ALWAYS_DROPPING,
        "places": BATCH_AS_PLACES,
        "torn": TORN,
    }
    for kind, made in kinds.items():
        known = [(name, slip) for name, slip in every if slip.kind == kind]
        if known and evidence.series and (kind != "places" or _is_batch_first(evidence)):
            module, slip = known[0]
            text = f"{slip.place}: `{slip.code}` {_SEEN[kind]}{_more([s for _, s in known[1:]])}"
            series = next((s for s in evidence.series if s.module == module), evidence.series[0])
            yield made.at(series, 0, text, module=module)


def _is_batch_first(evidence: Evidence) -> bool:
    """True if all layers that may take another axis for the batch take the first one."""
    return bool(evidence.model.batch_axes) and not any(evidence.model.batch_axes.values())


def _more(others: Sequence[Slip]) -> str:
    places = [slip.place for slip in others]
    return f"; and so {'do' if places[1:] else 'does'} {', '.join(places)}" if places else ""
