"""Forward hooks that change what a module returns, which is read before them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from taiyi_fx.findings.facts.attributes import is_table
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
    behind = _behind_hooks(evidence)
    first = {name: pair for pair in reversed(behind) for name in behind[pair]}
    for module, hooks in evidence.model.hooks.items():
        sizes = _sizes(*first[module], evidence) if module in first else None
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


def with_hooks_named(every: Iterable[Finding], evidence: Evidence) -> list[Finding]:
    """The findings, whose texts name the forward hooks that values pass on the way to a module."""
    before = {module: hooks for (_, module), hooks in _behind_hooks(evidence).items()}
    return [_with_hooks(one, before.get(one.module, ()), evidence) for one in every]


def _with_hooks(found: Finding, before: Sequence[str], evidence: Evidence) -> Finding:
    if not before or found.kind == CHANGED_BY_HOOK.name:
        return found
    shown = " and ".join(f"{name!r} ({', '.join(evidence.model.hooks[name])})" for name in before)
    return replace(found, text=f"{found.text}; a forward hook on {shown} stands before it")


def _behind_hooks(evidence: Evidence) -> dict[tuple[str, str], list[str]]:
    """The modules with hooks that run between two whose outputs are known, one behind the other."""
    hooks, found = evidence.model.hooks, dict[tuple[str, str], list[str]]()
    names = [s.module for s in evidence.of_quantity("OutputRMS")] if hooks else []
    for one, other in pairwise(names):
        around = _around(other)
        behind = [name for name in _around(one) if name in hooks and name not in around]
        if behind:
            found[one, other] = behind
    return found


def _around(module: str) -> list[str]:
    """The names of all that a module is in, but for the model itself, and its own."""
    parts = module.partition("@")[0].split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _sizes(module: str, following: str, evidence: Evidence) -> Watched | None:
    """The size of what the next one is given over that of what a module returns.

    None where it is not read, an embedding comes next, which is given indices, or functions come
    between, or other modules, as a norm whose numbers are not read.
    """
    is_beside = is_table(following, evidence.model.attributes)
    before = evidence.flow.modules_before(following, evidence.called)
    between = {*before}.difference(_around(module))
    if is_beside or between or evidence.flow.before_module(following):
        return None
    given = evidence.by_module("InputRMS").get(following)
    return None if given is None else over(given, evidence.by_module("OutputRMS")[module])
