"""Programs that show what a trial found: complete, to be copied and run as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from taiyi_fx.quantities.declare import Quantity
from taiyi_fx.testing.compare import Floor, disagreement
from taiyi_fx.testing.literals import array_text, number_text, quoted, tensor_text
from taiyi_fx.testing.script import complete, named
from taiyi_fx.testing.source import Excerpt, excerpt_of
from taiyi_fx.testing.tensor import OVERWRITTEN, TensorRecipe
from taiyi_fx.testing.trial import Trial, TrialStep


def program_of(
    quantity: Quantity,
    trial: Trial,
    step: int,
    found: Any,
    expected: Any,
    *,
    rel: float,
    floor: Floor,
) -> str:
    """A program in which a quantity's recorded value disagrees with a reference's."""
    problem = disagreement(found, expected, rel=rel, floor=floor)
    excerpt = Excerpt()
    entry = _entry(quantity, trial, excerpt)
    lines = [*_training(trial, step, entry, excerpt), ""]
    lines += _verdict(quantity.name, step, found, expected, rel, floor)
    return complete(f"{quantity.name}: {problem}", lines, excerpt)


def program_of_error(quantity: Quantity, trial: Trial, error: Exception) -> str:
    """A program in which a quantity raises an error."""
    excerpt = Excerpt()
    entry = _entry(quantity, trial, excerpt)
    lines = _training(trial, len(trial.steps) - 1, entry, excerpt, options=", strict=True")
    return complete(f"{quantity.name} raises {type(error).__name__}: {error}", lines, excerpt)


def program_of_split(
    quantity: Quantity, trial: Trial, step: int, *, rel: float, floor: Floor
) -> str:
    """A program in which micro-batches give another value than the whole."""
    excerpt = Excerpt()
    entry = _entry(quantity, trial, excerpt)
    ways = {
        "in_parts": _training(trial, step, entry, excerpt),
        "whole": _training(trial.whole(), step, entry, excerpt),
    }
    lines = _both(ways, quantity.name, step, rel, floor)
    return complete(
        f"{quantity.name}: micro-batches before one track are not one step", lines, excerpt
    )


def program_of_compiled(
    quantity: Quantity, trial: Trial, step: int, backend: str, *, rel: float, floor: Floor
) -> str:
    """A program in which compiled code gives another value than eager code."""
    excerpt = Excerpt()
    entry = _entry(quantity, trial, excerpt)
    eager = _training(trial, step, entry, excerpt)
    made = next(i for i, line in enumerate(eager) if line.startswith("model = ")) + 1
    run = f"run = torch.compile(model, fullgraph=True, backend={quoted(backend)})"
    compiled = [*eager[:made], run, *(line.replace("model(", "run(") for line in eager[made:])]
    lines = _both({"compiled": compiled, "eager": eager}, quantity.name, step, rel, floor)
    return complete(f"{quantity.name}: compiled code records something else", lines, excerpt)


def _both(
    ways: Mapping[str, list[str]], name: str, step: int, rel: float, floor: Floor
) -> list[str]:
    """Two ways to record a value, and that they agree."""
    lines: list[str] = []
    for way, training in ways.items():
        lines += [f"# {way.replace('_', ' ')}", *training, f"{way} = {_lookup(name, step)}", ""]
    first, second = ways
    return [*lines, f"assert_agrees({first}, {second}, rel={rel!r}, floor={number_text(floor)})"]


def _entry(quantity: Quantity, trial: Trial, excerpt: Excerpt) -> str:
    name = named(quantity, excerpt)
    if trial.options:
        return f"[{name}, {quoted(trial.schedule)}, {dict(trial.options)!r}]"
    return name if trial.schedule == "every(1)" else f"[{name}, {quoted(trial.schedule)}]"


def _training(
    trial: Trial, last: int, entry: str, excerpt: Excerpt, options: str = ""
) -> list[str]:
    kind = trial.layer.kind
    if not kind.__module__.startswith(("torch.nn.", "taiyi_fx.")):
        excerpt.add(excerpt_of(kind)[1])
    lines = [f"torch.manual_seed({trial.layer.seed})"] if trial.layer.seed else []
    lines.append(f"layer = {_layer(trial)}")
    lines.append(f'model = taiyi_fx.instrument(nn.Sequential(layer), {{"0": [{entry}]}}{options})')
    for i, step in enumerate(trial.steps[: last + 1]):
        lines += _step(i, step, trial, is_only=last == 0)
    return lines


def _layer(trial: Trial) -> str:
    text = repr(trial.layer)
    for value in trial.layer.options.values():
        if isinstance(value, TensorRecipe):
            text = text.replace(repr(value), tensor_text(value))
    return text


def _step(i: int, step: TrialStep, trial: Trial, *, is_only: bool) -> list[str]:
    lines = [] if is_only else ["", f"# step {i}", *(["model.zero_grad()"] if i else [])]
    for name, recipe in step.parameters.items():
        lines.append(f"layer.{name}.data.copy_({tensor_text(recipe)})")
    lines.append(f"x = {tensor_text(step.x)}")
    if step.g is not None:
        lines.append(f"g = {tensor_text(step.g)}")
    lines += _aside(step)
    lines += _batches(step, trial)
    if trial.overwrites:
        for name in ("x",) if step.g is None else ("x", "g"):
            lines.append(f"{name}.untyped_storage().fill_({OVERWRITTEN})")
    for name, recipe in step.gradients.items():
        lines.append(f"layer.{name}.grad = {tensor_text(recipe)}")
    scale = step.step.grad_scale
    lines.append(f"model.monitor.track({i}{'' if scale == 1.0 else f', grad_scale={scale}'})")
    return lines


def _aside(step: TrialStep) -> list[str]:
    if step.step.aside == "eval":
        return ["model.eval()", "model(x.clone())  # does not count", "model.train()"]
    if step.step.aside == "no_grad":
        return ["with torch.no_grad():", "    model(x.clone())  # does not count"]
    return []


def _batches(step: TrialStep, trial: Trial) -> list[str]:
    sizes, scale = list(step.step.sizes), step.step.grad_scale
    is_split = len(sizes) > 1
    x, g = ("x_i", "g_i") if is_split else ("x", "g")
    head = f"for x_i in x.split({sizes}):"
    if step.g is not None:
        head = f"for x_i, g_i in zip(x.split({sizes}), g.split({sizes})):"
        floating = step.x.dtype.is_floating_point
        x = f"{x}.detach()" if is_split else x
        x = f"{x}.requires_grad_()" if floating else x
        x = f"{x} * 1" if floating and trial.layer.is_in_place else x
    lines = [f"y = model({x})"]
    if step.g is not None:
        lines.append(f"y.backward({g if scale == 1.0 else f'{g} * {scale}'})")
    if trial.overwrites:
        lines.append(f"y.untyped_storage().fill_({OVERWRITTEN})")
    if not is_split:
        return lines
    return [head, *(f"    {line}" for line in lines)]


def _verdict(
    name: str, step: int, found: Any, expected: Any, rel: float, floor: Floor
) -> list[str]:
    found = found if isinstance(found, Mapping) else {"": found}
    expected = {} if expected is None else expected
    expected = expected if isinstance(expected, Mapping) else {"": expected}
    for suffix in (*expected, *found):
        allowed = floor.get(suffix, 0.0) if isinstance(floor, Mapping) else floor
        mine, its = ({"": v[suffix]} if suffix in v else None for v in (found, expected))
        if disagreement(mine, its, rel=rel, floor=allowed):
            label = f"{name}.{suffix}" if suffix else name
            return _assertion(_lookup(label, step), its and its[""], rel, allowed)
    raise AssertionError("nothing disagrees")


def _lookup(label: str, step: int) -> str:
    return f'model.monitor.get_output().get("0", {{}}).get({quoted(label)}, {{}}).get({step})'


def _assertion(found: str, expected: Any, rel: float, floor: Floor) -> list[str]:
    lines = [f"found = {found}"]
    if expected is None:
        return [*lines, "assert found is None, found"]
    if np.shape(expected) or np.shape(floor):
        lines.append(f"expected = {array_text(expected)}")
        return [*lines, f"assert_agrees(found, expected, rel={rel!r}, floor={number_text(floor)})"]
    value = float(expected)
    shown = f"expected = {number_text(value)}"
    if not math.isfinite(value):
        is_none = "found is not None and not math.isfinite(found)"
        return [*lines, shown, f"assert {is_none}, (found, expected)"]
    is_whole = isinstance(expected, (int, np.integer))
    allowed = "0" if is_whole else f"{rel!r} * abs(expected)"
    allowed += f" + {number_text(floor)}" if float(floor) else ""
    close = f"found is not None and abs(found - expected) <= {allowed}"
    return [*lines, shown, f"assert {close}, (found, expected)"]
