"""Inputs of the model: data of a wild scale."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_LARGE, _SMALL = 100.0, 2.5e-3
_TIMES = 30.0
_RARE = 0.2
"""The share of batches that are so large; of more, the median is none."""
_PARTS, _FEWEST, _DRIFT = 4, 3, 1.4
"""The parts of a training that are compared, the numbers in each, and how many times as large the
last has to be."""

WILD_INPUT = Kind(
    "wild_input",
    "warning",
    "Normalize the data: subtract the mean of each feature and divide by its deviation",
)
_MADE_WILD = (
    "It began at a usual size: look for code that changes the data in place, and at the model that "
    "makes them, if one does"
)
INPUT_SPIKE = Kind(
    "input_spike",
    "warning",
    "Look at the samples of this batch, and bound or leave out what is broken",
)

INPUT_DRIFT = Kind(
    "input_drift",
    "note",
    "If the data should stay as they are, look for code that changes them in place, such as an "
    "augmentation of a view of the data set; a curriculum, or what another model makes, may drift",
)


def wild_inputs(evidence: Evidence) -> Iterator[Finding]:
    """A first module that is given numbers far from 1."""
    first = next(evidence.of_quantity("InputRMS"), None)
    if first is None or not is_given_the_batch(first.module, evidence):
        yield from _joined(evidence)
        return
    ends = (first.values[:STEPS], first.values[-STEPS:])
    sizes = [median(end) for end in ends]
    yield from _spike(first)
    value = next((size for size in sizes if not _SMALL <= size <= _LARGE), 1.0)
    if not np.isfinite(value) or _SMALL <= value <= _LARGE:
        return
    severity = "warning" if _SMALL / 10 < value < 10 * _LARGE else "alert"
    text = f"the root mean square of what {first.module!r} is given is {value:.3g}"
    is_wild = ~((first.values >= _SMALL) & (first.values <= _LARGE))
    others = {"value": value, "severity": severity}
    if _SMALL <= sizes[0] <= _LARGE:
        text += f" at last, and {sizes[0]:.3g} at first"
        others["advice"] = _MADE_WILD
    yield WILD_INPUT.at(first, int(np.argmax(is_wild)), text, "near 1", **others)


def _joined(evidence: Evidence) -> Iterator[Finding]:
    """The first module that is given an input of the model beside what others return, far larger.

    As a time in seconds since 1970 that is joined with embeddings.
    """
    returned = {s.module: median(s.values[:STEPS]) for s in evidence.of_quantity("OutputRMS")}
    for one in evidence.of_quantity("InputRMS"):
        value = median(one.values[:STEPS])
        if not (np.isfinite(value) and value >= _TIMES * _LARGE):
            continue
        before = evidence.flow.modules_before(one.module, returned.keys())
        inputs = evidence.flow.inputs_before(one.module)
        if inputs and all(value >= _TIMES * returned[name] for name in before):
            text = (
                f"the root mean square of what {one.module!r} is given is {value:.3g}, by the "
                f"model's input {' and '.join(map(repr, inputs))}"
            )
            yield WILD_INPUT.at(one, 0, text, "near 1", value=value, severity="alert")
        return


def drifting_inputs(evidence: Evidence) -> Iterator[Finding]:
    """A model that is given ever larger or ever smaller numbers."""
    first = next(evidence.of_quantity("InputRMS"), None)
    if first is None or not is_given_the_batch(first.module, evidence) or first.values.min() <= 0:
        return
    if len(first.values) < _PARTS * _FEWEST:
        return
    parts = np.array_split(first.values, _PARTS)
    for order in (parts, parts[::-1]):
        middles = [median(part) for part in order]
        is_rising = all(a < b for a, b in itertools.pairwise(middles))
        if is_rising and middles[-1] > _DRIFT * middles[0] and order[0].max() < order[-1].min():
            old, new = median(parts[0]), median(parts[-1])
            goes = "grows" if new > old else "shrinks"
            text = f"what {first.module!r} is given {goes} from {old:.3g} to {new:.3g} in size"
            yield INPUT_DRIFT.at(first, len(parts[0]), text, f"near {old:.3g}", value=new)


def is_given_the_batch(module: str, evidence: Evidence) -> bool:
    """True if no other module comes before it but those it is in."""
    before = [name for name, place in evidence.modules.items() if place < evidence.modules[module]]
    return all(name == "" or module.startswith(f"{name}.") for name in before)


def is_made_within(module: str, evidence: Evidence) -> bool:
    """True if what a module is given is made of what others return, as the data flow shows it."""
    return bool(evidence.flow.modules_before(module, evidence.called))


def _spike(one: Watched) -> Iterator[Finding]:
    """A batch that is far larger than the others."""
    usual = median(one.values)
    i = int(np.argmax(one.values))
    value = float(one.values[i])
    if usual > 0 and value >= _TIMES * usual and (one.values >= _TIMES * usual).mean() < _RARE:
        text = f"step {one.steps[i]}: what {one.module!r} is given is {value:.3g} in size, once"
        yield INPUT_SPIKE.at(one, i, text, f"near {usual:.3g}")
