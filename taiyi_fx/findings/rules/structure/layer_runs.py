"""Linear layers with nothing between them, and what a layer returns added to itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from taiyi_fx.findings.facts.attributes import Attributes
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.of_layers import LayerSettings
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


def missing_activations(evidence: Evidence) -> Iterator[Finding]:
    """Three linear layers and more that are given just what the one before them returns."""
    for loss in evidence.losses:
        graph = evidence.loss_graphs.get(loss.quantity)
        for run in graph.linear_runs[-1:] if graph else ():  # nodes come from the loss back
            names = ", ".join(map(repr, run[:_SHOWN])) + " and more" * (len(run) > _SHOWN)
            text = (
                f"the linear layers {names} are one behind the other with nothing between them: "
                "together they are one linear layer"
            )
            yield MISSING_ACTIVATION.at(loss, 0, text, "an activation", module=run[0])


def doubled_outputs(evidence: Evidence) -> Iterator[Finding]:
    """Sums of what a layer returns and the same once more.

    Not where a module that may do nothing is given what the layer returns, as an `nn.Identity` in
    the place of an attention: it returns the same tensor, and x + f(x) is what is written.
    """
    graphs = [
        (s, evidence.loss_graphs[s.quantity].doubled)
        for s in evidence.losses
        if s.quantity in evidence.loss_graphs
    ]
    handed_on = _handed_on({x for _, doubled in graphs for x in doubled}, evidence)
    for loss, every in graphs:
        doubled = [x for x in every if x not in handed_on]
        for module in doubled[-1:]:
            of = f"what {module!r} returns" if module else "what a layer returns"
            text = f"on the way to {loss.quantity!r}, {of} is added to itself"
            others = len(doubled) - 1
            text += f", and that of {others} more likewise" if others else ""
            yield DOUBLED_OUTPUT.at(loss, 0, text, "x + f(x)", module=module)


def _handed_on(modules: Collection[str], evidence: Evidence) -> Collection[str]:
    """Those of some modules that return what one is given that may do nothing, or may do so.

    A module that is not called itself, as the last layer of torch's attention, is one with that
    around it.
    """
    own = evidence.attributes
    idle = _idle(evidence) if modules else set[str]()
    if not idle:
        return ()
    called = {name: name.partition("@")[0] for name in evidence.order}
    known = {x for x, name in called.items() if name in own and own[name].settings["parameters"]}
    given = {x: evidence.modules_before(x, known) for x, name in called.items() if name in idle}
    if any(not (makers or evidence.shape_before(x)) for x, makers in given.items()):
        return modules
    makers = {called[x] for before in given.values() for x in before}
    others = {called[x] for x in known} - makers
    return [x for x in modules if makers & _around(x) or not others & _around(x)]


def _around(module: str) -> set[str]:
    """A module and those around it, but the whole model."""
    parts = module.split(".")
    return {".".join(parts[:i]) for i in range(1, len(parts) + 1)}


def _idle(evidence: Evidence) -> set[str]:
    """The modules without parts and parameters that may return what they are given.

    Those are an Identity, an empty Sequential, a Dropout that drops nothing, and what is not
    torch's.
    """
    around = {name.rpartition(".")[0] for name in evidence.attributes}
    return {
        name
        for name, own in evidence.attributes.items()
        if name not in around
        and not own.settings["parameters"]
        and _may_do_nothing(own, evidence.settings.get(name, LayerSettings()).drops)
    }


def _may_do_nothing(own: Attributes, drops: float) -> bool:
    if "Dropout" in own.kind:
        return not (drops and own.numbers["training"])
    return not own.kind.startswith(_TORCH) or own.kind.endswith((".Identity", ".Sequential"))
