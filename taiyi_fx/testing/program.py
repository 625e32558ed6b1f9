"""Programs that show what a check found: complete, to be copied and run as they are.

A program is text in one form: imports, those definitions of the user's test that cannot be
imported, the lines that train, and an assertion. `TensorRecipe` and `ModuleRecipe` print as code.
What else goes into a program goes through `Program.code`, which also collects what it needs.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from taiyi_fx.passes.ir import Reduction
from taiyi_fx.quantities.declare import Quantity, find_quantity
from taiyi_fx.testing.compare import Floor, as_array
from taiyi_fx.testing.failure import CheckFailure
from taiyi_fx.testing.module import ModuleRecipe
from taiyi_fx.testing.source import excerpt_of
from taiyi_fx.testing.tensor import OVERWRITTEN
from taiyi_fx.testing.trial import Trial, TrialStep

_IMPORTS = {
    r"(nan|inf)\b": "from math import inf, nan",
    r"torch\.": "import torch",
    r"nn\.": "from torch import nn",
    r"taiyi_fx\.": "import taiyi_fx",
    r"assert_agrees\(": "from taiyi_fx.testing import assert_agrees",
    r"assert_faithful\(": "from taiyi_fx.testing import assert_faithful",
    r"make_tensor\(": "from taiyi_fx.testing import make_tensor",
}
"""The imports of a program, by the names in it."""


class Program:
    """A program that is being written, and what has to stand before its lines."""

    def __init__(self) -> None:
        self._imports: list[str] = []
        self._definitions: list[str] = []

    def failure(self, problem: str, lines: Sequence[str]) -> CheckFailure:
        """The failure of a check, which shows the whole program: imports, definitions, lines."""
        return CheckFailure(problem, self._complete(problem, lines))

    def code(self, value: Any) -> str:
        """Code for a value: of a configuration, or a number, an array or a dictionary of these."""
        if isinstance(value, Mapping):
            entries = (f"{self.code(k)}: {self.code(v)}" for k, v in value.items())
            return f"{{{', '.join(entries)}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(self.code, value))}]"
        if isinstance(value, tuple):
            return f"({''.join(f'{self.code(part)}, ' for part in value)})"
        if isinstance(value, Quantity):
            function = value.compute
            is_ours = function.__module__.startswith("taiyi_fx.")
            is_stock = is_ours and find_quantity(value.name) is value
            return json.dumps(value.name) if is_stock else self._name(function)
        if isinstance(value, type) or inspect.isfunction(value):
            return self._name(value)
        if isinstance(value, (np.ndarray, np.generic, torch.Tensor)):
            return repr(as_array(value).tolist())
        return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)

    def module(self, name: str, recipe: ModuleRecipe) -> list[str]:
        """Lines that make a module under a name."""
        self._name(recipe.kind)
        seed = [f"torch.manual_seed({recipe.seed})"] if recipe.seed else []
        return [*seed, f"{name} = {recipe!r}"]

    def reduction(self, reduction: Reduction) -> str:
        """Code that makes a reduction."""
        return f"{self._name(type(reduction))}({repr(reduction).partition('(')[2]}"

    def agreement(self, found: str, expected: Any, rel: float, floor: Floor) -> str:
        """The line that fails, of a variable and of what it should be: a value, or a variable."""
        expected = expected if isinstance(expected, str) else self.code(expected)
        is_given = isinstance(floor, Mapping) or np.any(as_array(floor) != 0)
        allowed = f", floor={self.code(floor)}" if is_given else ""
        return f"assert_agrees({found}, {expected}, rel={rel!r}{allowed})"

    def two_ways(
        self, ways: Mapping[str, list[str]], label: str, step: int, rel: float, floor: Floor
    ) -> list[str]:
        """Lines that record a value in two ways, and say that both agree."""
        lines: list[str] = []
        for way, trained in ways.items():
            lines += [f"# {way.replace('_', ' ')}", *trained, f"{way} = {lookup(label, step)}", ""]
        first, second = ways
        return [*lines, self.agreement(first, second, rel, floor)]

    def _complete(self, title: str, lines: Sequence[str]) -> str:
        body = "\n".join([*(f"{text}\n" for text in self._definitions), *lines])
        imports = [text for used, text in _IMPORTS.items() if re.search(rf"\b{used}", body)]
        title = title.replace("\\", "/").replace('"""', "'''")
        return "\n".join([f'"""{title}"""', "", *_joined([*imports, *self._imports]), "", body, ""])

    def _name(self, thing: Any) -> str:
        if getattr(thing, "__module__", "").startswith("torch.nn."):
            return f"nn.{thing.__qualname__}"
        excerpt = excerpt_of(thing)
        for mine, its in (
            (self._imports, excerpt.imports),
            (self._definitions, excerpt.definitions),
        ):
            mine.extend(text for text in its if text not in mine)
        return excerpt.name


def _joined(imports: Sequence[str]) -> list[str]:
    """Each once, names of one home in one line, futures first."""
    homes: dict[str, dict[str, None]] = {}
    for text in imports:
        home, _, names = text.partition(" import ")
        homes.setdefault(home, {}).update(dict.fromkeys(filter(None, names.split(", "))))
    lines = [
        f"{home} import {', '.join(names)}" if names else home for home, names in homes.items()
    ]
    return sorted(lines, key=lambda line: not line.startswith("from __future__"))


def lookup(label: str, step: int) -> str:
    """Code for a recorded value, or for None where there is none."""
    return f'model.monitor.get_output().get("0", {{}}).get({json.dumps(label)}, {{}}).get({step})'


def training(
    program: Program,
    quantity: Quantity,
    trial: Trial,
    last: int,
    *,
    strict: bool = False,
    backend: str = "",
) -> list[str]:
    """Lines that train a trial's model up to a step, as `trial.train` does."""
    entry = [quantity, trial.schedule, dict(trial.options)]
    entry = entry if trial.options else entry[:2] if trial.schedule != "every(1)" else quantity
    lines = program.module("layer", trial.layer)
    cfg = program.code({"0": [entry]})
    checked = ", strict=True" if strict else ""
    lines.append(f"model = taiyi_fx.instrument(nn.Sequential(layer), {cfg}{checked})")
    if backend:
        lines.append(f'run = torch.compile(model, fullgraph=True, backend="{backend}")')
    for i, step in enumerate(trial.steps[: last + 1]):
        lines += ["", f"# step {i}"] if last else []
        lines += ["model.zero_grad()"] if i else []
        lines += _step(i, step, trial, "run" if backend else "model")
    return lines


def _step(i: int, step: TrialStep, trial: Trial, call: str) -> list[str]:
    tensors = {"x": step.x} if step.g is None else {"x": step.x, "g": step.g}
    lines = [f"layer.{name}.data.copy_({recipe!r})" for name, recipe in step.parameters.items()]
    lines += [f"{name} = {recipe!r}" for name, recipe in tensors.items()]
    lines += _ASIDE[step.step.aside]
    lines += _batches(step, trial, call)
    if trial.overwrites:
        lines += [f"{name}.untyped_storage().fill_({OVERWRITTEN})" for name in tensors]
    lines += [f"layer.{name}.grad = {recipe!r}" for name, recipe in step.gradients.items()]
    scale = step.step.grad_scale
    return [*lines, f"model.monitor.track({i}{'' if scale == 1.0 else f', grad_scale={scale}'})"]


_ASIDE = {
    "": [],
    "eval": ["model.eval()", "model(x.clone())  # does not count", "model.train()"],
    "no_grad": ["with torch.no_grad():", "    model(x.clone())  # does not count"],
}


def _batches(step: TrialStep, trial: Trial, call: str) -> list[str]:
    sizes, scale = list(step.step.sizes), step.step.grad_scale
    is_split, has_gradient = len(sizes) > 1, step.g is not None
    x, g = ("x_i", "g_i") if is_split else ("x", "g")
    given = x
    if has_gradient and step.x.dtype.is_floating_point:
        given = f"{x}.detach().requires_grad_()" if is_split else f"{x}.requires_grad_()"
        given += " * 1" if trial.layer.is_in_place else ""
    lines = [f"y = {call}({given})"]
    if has_gradient:
        lines.append(f"y.backward({g if scale == 1.0 else f'{g} * {scale}'})")
    if trial.overwrites:
        lines.append(f"y.untyped_storage().fill_({OVERWRITTEN})")
    if not is_split:
        return lines
    head = f"for x_i in x.split({sizes}):"
    if has_gradient:
        head = f"for x_i, g_i in zip(x.split({sizes}), g.split({sizes})):"
    return [head, *(f"    {line}" for line in lines)]
