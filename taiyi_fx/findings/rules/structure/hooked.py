"""Forward hooks that change what a module returns, which is read before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import log10
from taiyi_fx.findings.facts.watched import Watched, over
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FACTOR = 1.0
"""Powers of ten between what a module returns and what the next one is given."""

CHANGED_BY_HOOK = Kind(
    "changed_by_hook",
    "warning",
    "Look at what this hook returns; numbers of the module's output are those before it",
)


def changed_by_hooks(evidence: Evidence) -> Iterator[Finding]:
    """Modules with forward hooks, behind which values are of another size, or drift from theirs."""
    for module, hooks in evidence.model.hooks.items():
        sizes = _sizes(module, evidence)
        if sizes is None or len(sizes.values) < STEPS:
            continue
        powers = log10(sizes.values)
        last = float(np.median(powers[-STEPS:]))
        if abs(last) < _FACTOR:
            continue
        i = int(np.flatnonzero(np.abs(powers) >= _FACTOR / 2)[0])
        text = (
            f"what comes out behind the forward hook of {module!r} ({', '.join(hooks)}) is "
            f"{np.power(10.0, last):.3g} times what {module!r} returns"
        )
        yield CHANGED_BY_HOOK.at(sizes, i, text, "about as large", module=module)


def name_hooks(found: Finding, evidence: Evidence) -> Finding:
    """A finding whose text names the forward hooks that values pass on their way to its module."""
    before = [name for name in evidence.model.hooks if _is_between(name, found.module, evidence)]
    if not before or found.kind == CHANGED_BY_HOOK.name:
        return found
    shown = " and ".join(f"{name!r} ({', '.join(evidence.model.hooks[name])})" for name in before)
    return replace(found, text=f"{found.text}; a forward hook on {shown} stands before it")


def _is_between(hooked: str, module: str, evidence: Evidence) -> bool:
    """True if the hook runs after all that comes before a module, and before the module."""
    names = _computed(evidence)
    if module not in names:
        return False
    i = names.index(module)
    return i > 0 and _is_within(names[i - 1], hooked) and not _is_within(module, hooked)


def _sizes(hooked: str, evidence: Evidence) -> Watched | None:
    """The size of what comes next over that of what the module returns."""
    names = _computed(evidence)
    next_ = next((name for name in names if _is_between(hooked, name, evidence)), None)
    if next_ is None or evidence.flow.before_module(next_):
        return None
    outputs = evidence.by_module("OutputRMS")
    given = evidence.by_module("InputRMS").get(next_, outputs[next_])
    return over(given, outputs[names[names.index(next_) - 1]])


def _computed(evidence: Evidence) -> Sequence[str]:
    """The modules whose outputs are known, in order."""
    return [s.module for s in evidence.of_quantity("OutputRMS")]


def _is_within(module: str, other: str) -> bool:
    name = module.partition("@")[0]
    return name == other or name.startswith(f"{other}.")
