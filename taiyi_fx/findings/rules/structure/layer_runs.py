"""Linear layers with nothing between them, and what a layer returns added to itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taiyi_fx.findings.facts.attributes import Attributes
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.of_layers import LayerSettings
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_SHOWN = 4
_TORCH = "torch.nn.modules."

MISSING_ACTIVATION = Kind(
    "missing_activation",
    "warning",
    "Put an activation behind each of them but the last: without one they are a single linear "
    "layer together, whatever they learn",
)
DOUBLED_OUTPUT = Kind(
    "doubled_output",
    "warning",
    "Look at the forward: where x is what the layer returns already, x = x + x leaves out what it "
    "was given; keep that, and write x + f(x)",
)
_JOIN = (
    "Look at the forward: of torch.cat([x, x]), one was to be something else, as what an earlier "
    "layer returned; and see that its name was not given to another tensor since"
)


def missing_activations(evidence: Evidence) -> Iterator[Finding]:
    """Three linear layers and more that are given just what the one before them returns."""
    for loss, graph in evidence.logged.graphs:
        for run in graph.linear_runs[-1:]:  # nodes come from the loss back
            names = ", ".join(map(repr, run[:_SHOWN])) + " and more" * (len(run) > _SHOWN)
            text = (
                f"the linear layers {names} are one behind the other with nothing between them: "
                "together they are one linear layer"
            )
            yield MISSING_ACTIVATION.at(loss, 0, text, "an activation", module=run[0])


def doubled_outputs(evidence: Evidence) -> Iterator[Finding]:
    """Sums, and joins, of what a layer returns and the same once more.

    Not in a model with a module that may return what it is given, as an `nn.Identity` in the place
    of an attention: x + f(x) is what is written there.
    """
    known = evidence.model.attributes
    if any(_may_do_nothing(own, evidence.model.settings.get(name)) for name, own in known.items()):
        return
    for loss, graph in evidence.logged.graphs:
        yield from _doubled(loss, graph.doubled, "added to itself", DOUBLED_OUTPUT.advice)
        yield from _doubled(loss, graph.joined, "joined with itself along a further axis", _JOIN)


def _doubled(loss: Watched, modules: Sequence[str], done: str, advice: str) -> Iterator[Finding]:
    for module in modules[-1:]:  # nodes come from the loss back
        of = f"what {module!r} returns" if module else "what a layer returns"
        others = len(modules) - 1
        text = f"on the way to {loss.quantity!r}, {of} is {done}"
        text += f", and that of {others} more likewise" if others else ""
        yield DOUBLED_OUTPUT.at(loss, 0, text, "x + f(x)", module=module, advice=advice)


def _may_do_nothing(own: Attributes, settings: LayerSettings | None) -> bool:
    """True for an Identity, for a dropout that drops nothing, and for one of one's own.

    Of those without weights.
    """
    if own.sizes or own.settings["parameters"]:
        return False
    if "Dropout" in own.kind:
        return not (settings and settings.drops and own.numbers["training"])
    return not own.kind.startswith(_TORCH) or own.kind.endswith((".Identity", ".Sequential"))
