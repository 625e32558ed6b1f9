"""Failures, shrunk and grouped: one cause is a kind of difference and the features it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.random_programs.program import Program
from tests.random_programs.run import Difference, Unfit, run
from tests.random_programs.shrink import MOST, shrunk
from tests.random_programs.watch import Watch, instrumented

_USUAL = ("linear", "part", "linear and activation")


@dataclass
class Cause:
    """What failures have in common, and the smallest program that shows it."""

    kind: str
    features: tuple[str, ...]
    changes: tuple[str, ...]
    program: Program
    difference: Difference
    seeds: list[int] = field(default_factory=list)

    def fits(self, program: Program, kind: str) -> bool:
        """Whether a program that fails in some way has all that this takes."""
        changes = set(_changes(program))
        return (
            kind == self.kind
            and set(self.features) <= set(program.features())
            and set(self.changes) <= changes
        )

    def __str__(self) -> str:
        what = " + ".join((*self.features, *self.changes)) or "(nothing)"
        return (
            f"{len(self.seeds):5}  {self.kind}\n       by {what}\n       as in seed {self.seeds[0]}"
        )


@dataclass
class Causes:
    """The causes found so far."""

    watch: Watch = instrumented
    found: list[Cause] = field(default_factory=list)

    def add(self, seed: int, program: Program, difference: Difference) -> Cause:
        """Puts a failure with those of its cause, a new one if there is none."""
        for cause in self.found:
            if cause.fits(program, difference.kind):
                cause.seeds.append(seed)
                return cause
        most = 10 if difference.what == "time" else MOST
        smallest = shrunk(program, fails_as(difference.kind, self.watch), most)
        seen = run(smallest, self.watch) or difference
        features = tuple(f for f in smallest.features() if f not in _USUAL) or tuple(
            smallest.features()
        )
        made = Cause(difference.kind, features, _changes(smallest), smallest, seen, [seed])
        for cause in self.found:  # shrunk to one that is known already
            if (cause.kind, cause.features, cause.changes) == (made.kind, features, made.changes):
                cause.seeds.append(seed)
                return cause
        self.found.append(made)
        return made

    def sorted(self) -> list[Cause]:
        """The most frequent first."""
        return sorted(self.found, key=lambda c: -len(c.seeds))


def fails_as(kind: str, watch: Watch) -> Callable[[Program], bool]:
    """Says whether a program fails in that way."""

    def fails(program: Program) -> bool:
        try:
            found = run(program, watch)
        except (Unfit, AssertionError):
            return False
        return found is not None and found.kind == kind

    return fails


def _changes(program: Program) -> tuple[str, ...]:
    texts: Iterable[str] = (c.text for step in program.steps for c in step.changes)
    return tuple(sorted({re.sub(r"^model(\.\w+|\[.*?\])*?(?=\.\w+( =|\.|\())", "SELF", re.sub(r"_\d+\b", "_N", t)) for t in texts}))  # fmt: skip
