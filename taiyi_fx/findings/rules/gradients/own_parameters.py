"""Parameters of a module beside weights and biases, as positions, tokens and adapters have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.parameters import parameter_of
from taiyi_fx.findings.facts.watched import Watched, grouped
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

ZEROS = Kind(
    "zero_weight",
    "alert",
    "Each of two factors passes no gradient as long as the other is zero: begin one of them with "
    "random numbers, as LoRA begins A, and leave the other at zero",
)
SILENT = Kind(
    "zero_gradient",
    "alert",
    "Look at what they are multiplied by on the way to the output, as a scale of 0: alpha // r of "
    "two whole numbers is one; at a mask that hides them, and at a detach",
)
UNUSED = Kind(
    "detached",
    "note",
    "Nothing is wrong if these inputs have no use for it, as a token for masked places; else look "
    "at where the forward should use it: x.add(p) returns another tensor, and detach(), .data and "
    "torch.no_grad pass no gradient back",
)


def own_parameters(evidence: Evidence) -> Iterator[Finding]:
    """Two factors that are both zero and stay so, and what no gradient reaches."""
    every = [s for s in evidence.of_each("ParameterNorm") if _is_own(s) and len(s.values) >= STEPS]
    pulled = {(s.module, parameter_of(s)): s for s in evidence.of_each("ParameterGradNorm")}
    zeros = [s for s in every if not s.values.any() and _is_unpulled(pulled.get(_key(s)))]
    pairs = [pair for pair in grouped(zeros, lambda s: s.module).values() if len(pair) > 1]
    if pairs:
        first, more = pairs[0], len(pairs) - 1
        text = f"{_named(first)} are exactly 0, and so are their gradients"
        text += f"; so are those of {more} more module{'s' * (more > 1)} like it" if more else ""
        yield ZEROS.at(first[0], 0, text, "one of them above 0")
    yield from _silent(every, pulled, pairs, evidence)
    given = {module for group in evidence.optimizer.group_settings for module in group.modules}
    unused = [s for s in every if s.module in given and _lacks_gradient(s, evidence)]
    if unused and (pulled or evidence.parameters.weight_gradients):
        text = f"no gradient reaches {_named(unused[:1])}, which the optimizer has"
        text += f", nor {len(unused) - 1} more like it" if unused[1:] else ""
        yield UNUSED.at(unused[0], 0, text, "a gradient, as others have")


def _silent(
    every: Sequence[Watched],
    pulled: Mapping[tuple[str, str], Watched],
    zeros: Sequence[Sequence[Watched]],
    evidence: Evidence,
) -> Iterator[Finding]:
    """All own parameters of a module, which have gradients of exactly 0 at every step."""
    told = {s.module for pair in zeros for s in pair}
    modules = grouped([s for s in every if s.module not in told], lambda s: s.module)
    silent = [
        own
        for own in modules.values()
        if all(_is_unpulled(pulled.get(_key(s))) for s in own) and own[0].values.any()
    ]
    # Where weights have gradients of 0, too, `zero_gradients` says so.
    weights = evidence.parameters.weight_gradients.values()
    if silent and (not weights or any(s.values.any() for s in weights)):
        first, more = silent[0], len(silent) - 1
        text = f"the gradient of {_named(first)} is exactly 0 at every step"
        text += f", and so are those of {more} more like it" if more else ""
        yield SILENT.at(first[0], 0, text, "above 0, as of others")


def _is_own(s: Watched) -> bool:
    name = parameter_of(s)
    return "weight" not in name and "bias" not in name


def _key(s: Watched) -> tuple[str, str]:
    return s.module, parameter_of(s)


def _is_unpulled(gradient: Watched | None) -> bool:
    return gradient is not None and not gradient.values.any()


def _lacks_gradient(s: Watched, evidence: Evidence) -> bool:
    reason = evidence.reasons.get((s.module, f"ParameterGradNorm.{parameter_of(s)}"), "")
    return reason.startswith("no gradient reached")


def _named(series: Sequence[Watched]) -> str:
    """The names of parameters of one module, with that."""
    names = " and ".join(f"{parameter_of(s)!r}" for s in series)
    of = f" of {series[0].module!r}" if series[0].module else ""
    return f"the parameter{'s' * (len(series) > 1)} {names}{of}"
