"""Instruments models of transformers with all that looks inside of them, bit for bit.

Attention by head, routers, outlier features, the logit lens, the optimizer's states, and spectra of
weights are asked for at every step, wherever a model has them. Each model goes through two steps of
AdamW and an evaluation, plain and instrumented: outputs, gradients, buffers and parameters have to
be the same bits. The table says of how many models each quantity brought numbers.

Run it from the root of the repository, in an environment with transformers:

    python -m benchmarks.zoo_inside [--short] [--only PATTERN]
"""

from __future__ import annotations

import argparse
import fnmatch
import gc
import re
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

import taiyi_fx
from benchmarks.zoo_check import build, listed, told
from benchmarks.zoo_models.case import Case
from benchmarks.zoo_phases import Phase, run_phases
from taiyi_fx.config.presets import kinds
from taiyi_fx.config.presets.preset import Part
from taiyi_fx.snapshot.bitwise import differences

_ATTENTION = ("AttentionLogitMax", "AttentionEntropy", "AttentionSink", "AttentionDistance")
_ROUTERS = ("RouterLoad", "RouterEntropy", "DeadExperts")
_OPTIMIZER = ("FirstMoment", "SecondMoment", "EffectiveStep", "UpdateLost")
_SPECTRA = ("WeightSpectralNorm", "WeightStableRank", "WeightAlpha")
_WHOLE = ("GradNorm", "LearningRate")
QUANTITIES = (
    *_ATTENTION, "HeadNorm", *_ROUTERS, "OutlierFeatures", "LogitLens",
    *_OPTIMIZER, *_SPECTRA, *_WHOLE,
)  # fmt: skip
"""The quantities that are asked for."""

_BLOCK = re.compile(r"(.*\.)?(layers?|h|blocks?)\.[0-9]+")
_ERROR = re.compile(r"[A-Za-z]+Error: ")
_PHASES = ("first step", "second step", "evaluation")

SHORT = ("LlamaForCausalLM", "MixtralForCausalLM", "BertForMaskedLM")
"""The models of a short run."""


@dataclass
class Inside:
    """What a case showed.

    Attributes:
        name: The case's name.
        excluded: Why the case says nothing about taiyi_fx, if so.
        problems: Everything that falls short.
        numbers: The count of values by quantity.
        refused: The count of sites by quantity whose values are refused, with a reason.
    """

    name: str
    excluded: str = ""
    problems: list[str] = field(default_factory=list)
    numbers: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the models; 1 if one falls short."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="PATTERN", default="*", help="names that fit")
    parser.add_argument("--short", action="store_true", help="a few models")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    results = []
    for case in _cases(options.short, options.only):
        results.append(check_inside(case))
        gc.collect()
        print(_line(results[-1]), flush=True)
    print(_report(results))
    return int(any(result.problems for result in results))


def check_inside(case: Case) -> Inside:
    """Runs a case, plain and instrumented; whatever goes wrong is in the result."""
    result = Inside(case.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = _trained(build(case), case)
        except Exception as error:  # noqa: BLE001 - a case that cannot run is named
            result.excluded = f"the plain model fails: {told(error)}"
            return result
        try:
            _check(result, case, expected)
        except Exception as error:  # noqa: BLE001 - one model must not end the run
            result.problems.append(told(error))
    return result


def _check(result: Inside, case: Case, expected: list[Phase]) -> None:
    model = taiyi_fx.instrument(build(case), _parts(), record_eval=True)
    found = _trained(model, case)
    if lines := _unequal(expected, found):
        if _unequal(expected, _trained(build(case), case)):
            result.excluded = "two runs of the plain model differ"
            return
        result.problems.append(f"not bit-equal: {listed(lines)}")
    monitor = taiyi_fx.monitor_of(model)
    result.numbers.update(record.quantity.partition(".")[0] for record in monitor.records)
    result.refused.update(key[1] for key, why in monitor.missing.items() if _is_refusal(why))
    failed = [
        f"{key}: {why}"
        for key, why in monitor.missing.items()
        if _ERROR.match(why) and not _is_refusal(why)
    ]
    if failed:
        result.problems.append(f"failed: {listed(failed)}")


def _is_refusal(why: str) -> bool:
    """True for what a reduction says of a tensor that it does not take."""
    return why.startswith("ValueError: ")


def _trained(model: nn.Module, case: Case) -> list[Phase]:
    """The phases of a training by AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor = None
    if isinstance(model, taiyi_fx.InstrumentedModule):
        monitor = taiyi_fx.monitor_of(model)
        monitor.watch_optimizer(optimizer)

    def after_step(step: int) -> None:
        if monitor is not None:
            monitor.track(step)
        optimizer.step()

    return run_phases(model, case, after_step)


def _parts() -> list[Part]:
    """All quantities, each where a model has what it reads."""
    each = {
        "the model itself": (kinds.is_model, _WHOLE),
        "modules whose forward attends": (kinds.is_any, _ATTENTION),
        "modules whose forward attends, by head": (kinds.is_any, ("HeadNorm",)),
        "routers": (kinds.is_router, _ROUTERS),
        "modules without parts": (kinds.is_leaf, ("OutlierFeatures",)),
        "blocks": (_is_block, ("LogitLens",)),
        "modules with a weight": (kinds.has_weight, (*_OPTIMIZER, *_SPECTRA)),
    }
    parts = [
        Part(what, of, tuple([name, "every(1)"] for name in names))
        for what, (of, names) in each.items()
    ]
    gates = Part(
        "linear layers that route",
        kinds.is_linear,
        tuple([name, "every(1)"] for name in _ROUTERS),
        kinds.routing_of,
    )
    return [*parts, gates]


def _is_block(name: str, module: nn.Module) -> bool:
    return _BLOCK.fullmatch(name) is not None


def _unequal(expected: list[Phase], found: list[Phase]) -> list[str]:
    return [
        f"{name}: {path}: {how}"
        for name, a, b in zip(_PHASES, expected, found, strict=True)
        for path, how in differences(a.state, b.state)
    ]


def _cases(is_short: bool, pattern: str) -> list[Case]:
    from benchmarks.zoo_models.transformers_models import cases

    names = {f"transformers/{name}" for name in SHORT}
    return [
        case
        for case in cases()
        if fnmatch.fnmatchcase(case.name, pattern) and (not is_short or case.name in names)
    ]


def _line(result: Inside) -> str:
    if result.excluded:
        return f"{result.name:<60} excluded: {result.excluded}"
    said = "; ".join(result.problems) or f"bit-equal, {result.numbers.total()} values"
    return f"{result.name:<60} {'FAILS: ' if result.problems else ''}{said}"


def _report(results: Sequence[Inside]) -> str:
    judged = [result for result in results if not result.excluded]
    right = sum(not result.problems for result in judged)
    lines = ["", f"{right} of {len(judged)} models are bit-equal, and nothing failed", ""]
    for name in QUANTITIES:
        having = [result.numbers[name] for result in judged if result.numbers[name]]
        refused = sum(result.refused[name] > 0 for result in judged)
        line = f"{name:<20} {len(having):4} models {sum(having):7} values"
        lines.append(line + (f", refused in {refused} models" if refused else ""))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
