"""Programs that show what a check found: complete, to be copied and run as they are."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from taiyi_fx.passes.ir import Reduction
from taiyi_fx.quantity import Quantity, find_quantity
from taiyi_fx.testing.compare import Floor, disagreement
from taiyi_fx.testing.module import ModuleRecipe
from taiyi_fx.testing.source import Excerpt, excerpt_of
from taiyi_fx.testing.tensor import OVERWRITTEN, TensorRecipe
from taiyi_fx.testing.trial import Trial, TrialStep

_TESTING = (
    "BatchNorm1dLike", "BatchNorm2dLike", "Conv1dLike", "Conv2dLike", "LinearLike", "PlainLike",
    "assert_agrees", "assert_faithful", "make_tensor",
)  # fmt: skip
_LITERAL = 12  # tensors of up to so many elements stand there as their values


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
    return [*lines, f"assert_agrees({first}, {second}, rel={rel!r}, floor={_number(floor)})"]


def complete(title: str, lines: Sequence[str], excerpt: Excerpt) -> str:
    """A program of its lines and of the imports that they need."""
    body = "\n".join([*(f"{text}\n" for text in excerpt.definitions), *lines])
    imports = _joined([*_imports(body), *excerpt.imports])
    title = title.replace("\\", "/").replace('"""', "'''")
    return "\n".join([f'"""{title}"""', "", *imports, "", body, ""])


def _joined(imports: Sequence[str]) -> list[str]:
    """Each once, names of one home in one line, futures first."""
    homes: dict[str, list[str]] = {}
    for text in imports:
        home, _, name = text.partition(" import ")
        names = homes.setdefault(home, [])
        names.extend(n for n in name.split(", ") if n and n not in names)
    lines = [
        f"{home} import {', '.join(names)}" if names else home for home, names in homes.items()
    ]
    return sorted(lines, key=lambda line: not line.startswith("from __future__"))


def _imports(body: str) -> list[str]:
    found = [f"import {m}" for m in ("math", "torch") if re.search(rf"\b{m}\.", body)]
    if re.search(r"\bnn\.", body):
        found.append("from torch import nn")
    if re.search(r"\btaiyi_fx\.", body):
        found.append("import taiyi_fx")
    names = [name for name in _TESTING if re.search(rf"\b{name}\(", body)]
    if names:
        found.append(f"from taiyi_fx.testing import {', '.join(names)}")
    return found


def named(quantity: Quantity, excerpt: Excerpt) -> str:
    """What a quantity is called in a program; what that needs is added to the excerpt."""
    function = quantity.compute
    if function.__module__.startswith("taiyi_fx.") and find_quantity(quantity.name) is quantity:
        return quoted(quantity.name)
    name, found = excerpt_of(function)
    for source in quantity.sources.values():
        if not source.reduction.__module__.startswith("taiyi_fx."):
            found.add(excerpt_of(source.reduction)[1])
    excerpt.add(found)
    return name


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
        lines.append(f"expected = {_array_text(expected)}")
        return [*lines, f"assert_agrees(found, expected, rel={rel!r}, floor={_number(floor)})"]
    value = float(expected)
    shown = f"expected = {_number(value)}"
    if not math.isfinite(value):
        is_none = "found is not None and not math.isfinite(found)"
        return [*lines, shown, f"assert {is_none}, (found, expected)"]
    is_whole = isinstance(expected, (int, np.integer))
    allowed = "0" if is_whole else f"{rel!r} * abs(expected)"
    allowed += f" + {_number(floor)}" if float(floor) else ""
    close = f"found is not None and abs(found - expected) <= {allowed}"
    return [*lines, shown, f"assert {close}, (found, expected)"]


def _array_text(value: Any) -> str:
    tensor = torch.as_tensor(value)
    shown = _nested(tensor.tolist())
    return f"torch.tensor({shown}, dtype={tensor.dtype})"


def tensor_text(recipe: TensorRecipe) -> str:
    """Code that makes a recipe's tensor: its values if they are few, else the recipe."""
    made = recipe.make()
    if made.numel() > _LITERAL or recipe.layout != "contiguous":
        return repr(recipe)
    if not made.is_floating_point():
        return f"torch.tensor({made.tolist()}, dtype={made.dtype})"
    dtype = "" if made.dtype == torch.float32 else f", dtype={made.dtype}"
    return f"torch.tensor({_nested(_shortest(made))}{dtype})"


def _shortest(x: torch.Tensor) -> Any:
    # Shortest texts that give the very values back: those of float32 are exact for halves too.
    numbers = (x if x.dtype == torch.float64 else x.float()).numpy()
    return np.vectorize(lambda v: float(str(v)), otypes=[object])(numbers).tolist()


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_nested, value))}]"
    return _number(value)


def _number(value: Any) -> str:
    if isinstance(value, Mapping):
        return repr({k: float(v) for k, v in value.items()})
    if np.shape(value):
        return _array_text(value)
    if isinstance(value, (bool, int)):
        return repr(value)
    return repr(float(value)) if math.isfinite(value) else f"math.{_special(float(value))}"


@functools.cache
def _special(value: float) -> str:
    return "nan" if math.isnan(value) else "inf" if value > 0 else "inf * -1"


def quoted(text: str) -> str:
    """A text as code."""
    return repr(text) if '"' in text or "\\" in text else f'"{text}"'


def program_of_merge(
    quantity: Quantity,
    reduction: Reduction,
    x: TensorRecipe,
    sizes: tuple[int, ...],
    merged: str,
    *,
    rel: float,
    floor: Floor,
) -> str:
    """A program in which merged states finish otherwise than that of all rows."""
    excerpt = Excerpt()
    lines = [
        f"reduction = {_reduction(reduction, excerpt)}",
        f"x = {tensor_text(x)}",
        "whole = reduction.finish(reduction.measure(x.clone()))",
        f"parts = [reduction.measure(part) for part in x.split({list(sizes)})]",
        f"x.untyped_storage().fill_({OVERWRITTEN})  # a state keeps no memory of its tensor",
        f"merged = {merged}",
        f"assert_agrees(reduction.finish(merged), whole, rel={rel!r}, floor={_number(floor)})",
    ]
    return complete(f"{quantity.name}: merged states are not that of all rows", lines, excerpt)


def program_of_scale(
    quantity: Quantity,
    reduction: Reduction,
    x: TensorRecipe,
    factor: float,
    *,
    rel: float,
    floor: Floor,
) -> str:
    """A program in which a scaled state finishes otherwise than that of the scaled tensor."""
    excerpt = Excerpt()
    lines = [
        f"reduction = {_reduction(reduction, excerpt)}",
        f"x = {tensor_text(x)}",
        f"scaled = reduction.finish(reduction.scale(reduction.measure(x), {factor!r}))",
        f"expected = reduction.finish(reduction.measure(x * {factor!r}))",
        f"assert_agrees(scaled, expected, rel={rel!r}, floor={_number(floor)})",
    ]
    return complete(f"{quantity.name}: a scaled state is not that of the scaled", lines, excerpt)


def _reduction(reduction: Reduction, excerpt: Excerpt) -> str:
    name, found = excerpt_of(type(reduction))
    excerpt.add(found)
    return f"{name}({repr(reduction).partition('(')[2]}"


def program_of_difference(
    model: ModuleRecipe, batches: Sequence[TensorRecipe], cfg: Mapping[Any, Any], problem: str
) -> str:
    """A program in which an instrumented model differs from its plain twin."""
    excerpt = Excerpt()
    if not model.kind.__module__.startswith(("torch.nn.", "taiyi_fx.")):
        excerpt.add(excerpt_of(model.kind)[1])
    lines = [f"torch.manual_seed({model.seed})"] if model.seed else []
    made = ", ".join(map(tensor_text, batches))
    lines += [
        f"model = {model!r}",
        f"batches = [{made}]",
        f"assert_faithful(model, batches, {_cfg_text(cfg, excerpt)})",
    ]
    return complete(f"Not faithful: {problem}", lines, excerpt)


def _cfg_text(cfg: Mapping[Any, Any], excerpt: Excerpt) -> str:
    parts = []
    for key, entries in cfg.items():
        if isinstance(key, str):
            name = quoted(key)
        elif key.__module__.startswith("torch.nn."):
            name = f"nn.{key.__qualname__}"
        else:
            name, found = excerpt_of(key)
            excerpt.add(found)
        parts.append(f"{name}: {_entries_text(entries, excerpt)}")
    return f"{{{', '.join(parts)}}}"


def _entries_text(entries: Any, excerpt: Excerpt) -> str:
    if isinstance(entries, (list, tuple)):
        return f"[{', '.join(_entries_text(entry, excerpt) for entry in entries)}]"
    return named(entries, excerpt) if isinstance(entries, Quantity) else repr(entries)
