"""Makes a failing program smaller for as long as it fails in the same way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from itertools import islice

from tests.random_programs.program import Fragment, Part, Program, Step

MOST = 80
"""Programs that are tried on the way to the smallest."""


def shrunk(program: Program, fails: Callable[[Program], bool], most: int = MOST) -> Program:
    """The smallest program found that fails as well."""
    tried = 0
    shorter = (_with(program, steps=program.steps[:n]) for n in range(len(program.steps)))
    program = next(filter(fails, islice(shorter, most)), program)
    while True:
        for smaller in _smaller(program):
            tried += 1
            if tried > most:
                return program
            if fails(smaller):
                program = smaller
                break
        else:
            return program


def _smaller(program: Program) -> Iterator[Program]:
    for i in reversed(range(len(program.steps))):
        yield _with(program, steps=_without(program.steps, i))
    for i, part in enumerate(program.parts):
        for fragments in _fewer(part.fragments):
            made = dataclasses.replace(part, fragments=fragments)
            yield _with(program, parts=_but(program.parts, i, made))
    for i, step in enumerate(program.steps):
        for less in _less(step):
            yield _with(program, steps=_but(program.steps, i, less))
    if len(program.entries) > 1:
        for i in range(len(program.entries)):
            yield _with(program, entries=_without(program.entries, i))
    for i, part in enumerate(program.parts):
        for simpler in _simpler(part, is_root=part is program.parts[-1]):
            yield _with(program, parts=_but(program.parts, i, simpler))


def _fewer(fragments: tuple[Fragment, ...]) -> Iterator[tuple[Fragment, ...]]:
    for i, fragment in enumerate(fragments):
        yield _without(fragments, i)
        if fragment.inner:
            yield (*fragments[:i], *fragment.inner, *fragments[i + 1 :])
        for inner in _fewer(fragment.inner):
            yield _but(fragments, i, dataclasses.replace(fragment, inner=inner))


def _less(step: Step) -> Iterator[Step]:
    for i in range(len(step.changes)):
        yield dataclasses.replace(step, changes=_without(step.changes, i))
    for i in range(len(step.ways)):
        yield dataclasses.replace(step, ways=_without(step.ways, i))
    if step.masked:
        yield dataclasses.replace(step, masked=False)
    if step.batch != 2:
        yield dataclasses.replace(step, batch=2)


def _simpler(part: Part, is_root: bool) -> Iterator[Part]:
    if part.signature != "x, mask=None":
        yield dataclasses.replace(part, signature="x, mask=None")
    if part.returns != "x" and is_root:
        yield dataclasses.replace(part, returns="x")


def _with(program: Program, **fields: object) -> Program:
    return dataclasses.replace(program, **fields)  # pyright: ignore[reportArgumentType]


def _without(values: tuple, i: int) -> tuple:
    return (*values[:i], *values[i + 1 :])


def _but(values: tuple, i: int, value: object) -> tuple:
    return (*values[:i], value, *values[i + 1 :])
