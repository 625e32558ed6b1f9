"""One case of the zoo compiled: the instrumented model's values beside those of eager code."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import taiyi_fx
from benchmarks.zoo_calls import QUANTITIES, Reading, is_leaf
from benchmarks.zoo_check import build, listed, told
from benchmarks.zoo_models.case import Case
from benchmarks.zoo_phases import Phase, train_step

BACKEND = "aot_eager"
_CLOSE = 1e-3


@dataclass
class Compiled:
    """What a case showed when it was compiled.

    Attributes:
        name: The case's name.
        excluded: Why the case says nothing about taiyi_fx, if so.
        problems: Everything that falls short.
        values: How many values eager code recorded.
        same: How many of them compiled code recorded too.
        told: How many others it said it would not, and why.
        plain_seconds: What the plain model's first step took, compiling included.
        seconds: The same of the instrumented one.
    """

    name: str
    excluded: str = ""
    problems: list[str] = field(default_factory=list)
    values: int = 0
    same: int = 0
    told: int = 0
    plain_seconds: float = 0.0
    seconds: float = 0.0


def check_compiled(case: Case) -> Compiled:
    """Compiles a case as one graph, plain and instrumented; whatever goes wrong is told."""
    result = Compiled(case.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = build(case)
        except Exception as error:  # noqa: BLE001 - a library that lacks another one is named
            result.excluded = f"the plain model cannot be built: {_first_line(error)}"
            return result
        if type(model).__call__ is not nn.Module.__call__:
            result.excluded = "the class has a call of its own, which compile() does not reach"
            return result
        try:
            expected = train_step(build(case), case, 0)
            plain, result.plain_seconds = _step_compiled(build(case), case)
        except Exception as error:  # noqa: BLE001 - a model that does not compile is named
            result.excluded = f"the plain model does not compile: {_first_line(error)}"
            return result
        if apart := _apart(expected, plain):
            result.excluded = f"compiling changes the plain model: {listed(apart)}"
            return result
        try:
            _check(result, case, plain)
        except Exception as error:  # noqa: BLE001 - one model must not end the run
            result.problems.append(told(error))
    return result


def _check(result: Compiled, case: Case, plain: Phase) -> None:
    eager = taiyi_fx.instrument(build(case), {is_leaf: QUANTITIES})
    compiled = taiyi_fx.instrument(build(case), {is_leaf: QUANTITIES})
    expected = train_step(eager, case, 0)
    found, result.seconds = _step_compiled(compiled, case)
    if apart := _apart(expected, found):
        result.problems.append(f"other results: {listed(apart)}")
    if moved := _moved(plain, found):
        result.problems.append(f"{len(moved)} other strides: {listed(moved)}")
    values, others = _values(eager), _values(compiled)
    said = taiyi_fx.monitor_of(compiled).missing
    same = [key for key in values if key in others and _is_close(values[key], others[key])]
    result.values, result.same = len(values), len(same)
    wrong = [key for key in values if key in others and key not in same]
    result.told = sum(key in said for key in values if key not in others)
    missing = [key for key in values if key not in others and key not in said]
    if wrong:
        lines = [f"{q} of {m!r}: {others[m, q]:.6g}, not {values[m, q]:.6g}" for m, q in wrong]
        result.problems.append(f"{len(wrong)} other values: {listed(lines)}")
    if missing:
        lines = [f"{q} of {m!r}" for m, q in missing]
        result.problems.append(f"{len(missing)} values missing without a word: {listed(lines)}")
    # What eager code says it cannot see, as inside a reentrant checkpoint, compiled code may.
    unseen = taiyi_fx.monitor_of(eager).missing
    if invented := [k for k in others if k not in values and k not in unseen and others[k]]:
        lines = [f"{q} of {m!r}" for m, q in invented]
        result.problems.append(f"{len(invented)} values that eager code has not: {listed(lines)}")


def _step_compiled(model: nn.Module, case: Case) -> tuple[Phase, float]:
    torch.compiler.reset()
    started = time.process_time()
    model.compile(backend=BACKEND, fullgraph=True)
    # One graph takes no checkpoint with probes inside without this: docs/explanation/limits.md.
    with torch._dynamo.config.patch(skip_fwd_side_effects_in_bwd_under_checkpoint=True):
        phase = train_step(model, case, 0)
    return phase, time.process_time() - started


def _values(model: taiyi_fx.InstrumentedModule) -> dict[Reading, float]:
    taiyi_fx.monitor_of(model).track(0)
    return {(r.module, r.quantity): float(r.value) for r in taiyi_fx.monitor_of(model).records}


def _apart(expected: Phase, found: Phase) -> list[str]:
    """The tensors of two phases that are not the same up to rounding."""
    tensors = {path: a for path, a in expected.state.items() if isinstance(a, torch.Tensor)}
    return [path for path, a in tensors.items() if not _is_same(a, found.state.get(path))]


def _moved(plain: Phase, found: Phase) -> list[str]:
    """How tensors of the compiled models lie in memory otherwise than the plain one's."""
    expected = {path: a for path, a in plain.state.items() if path.startswith("strides of ")}
    return [
        f"{p}: {found.state.get(p)}, not {a}"
        for p, a in expected.items()
        if a != found.state.get(p)
    ]


def _is_same(a: torch.Tensor, b: Any) -> bool:
    return isinstance(b, torch.Tensor) and a.shape == b.shape and _distance(a, b) < _CLOSE


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Of two tensors where finite, relative to the first's norm, or to 0.01 if that is less.

    The gradient of a bias that something later takes off again is nothing but rounding.
    """
    a, b = (x.detach().abs() if x.is_complex() else x.detach() for x in (a, b))
    a, b = (x.double().nan_to_num(0.0, 0.0, 0.0) for x in (a, b))
    return float((a - b).norm() / a.norm().clamp(min=1e-2))


def _is_close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=_CLOSE, abs_tol=1e-6) or (math.isnan(a) and math.isnan(b))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
