"""Any quantities of any model on any schedules, together, against references in float64.

Each quantity has a proof of its own, on one module at a time. Here a random model trains with a
random configuration, and each number that is recorded has to be what the same reference makes of
what hooks saw in a plain twin. ``TAIYI_FUZZ=3000 pytest tests/quantities/test_together.py`` tries
more of them.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import random
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import taiyi_fx
from taiyi_fx.testing import Seen, configs, models
from taiyi_fx.testing.check_faithful import total
from taiyi_fx.testing.compare import disagreement
from taiyi_fx.testing.trial import first_tensor, recorded
from tests.quantities.proofs import BOUND, PROOFS
from tests.quantities.test_proofs import promised

EXAMPLES = int(os.environ.get("TAIYI_FUZZ", "60"))

LEFT_OUT = {
    # Hooks cannot tell the gradient of one call's input from that of all uses of the tensor.
    "BackwardInput",
    # Of the model's loss, which has a test of its own.
    "Loss",
    # Of images, which their own proof draws.
    "FeatureMap",
    # Of modules of known classes, at which their own proofs draw them.
    "PerSampleGradNorm",
    "GradientNoiseScale",
    # Of routers, as which most modules make no sense.
    "RouterLoad",
    "RouterEntropy",
    "DeadExperts",
    # Of bits, which do not come through sums in float64.
    *(name for name in PROOFS if name.endswith("Fingerprint")),
}


@dataclass
class Call:
    """What hooks saw of one call of a module, in float64."""

    x: Tensor
    y: Tensor | None = None
    g_y: Tensor | None = None
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)


def double(x: Tensor) -> Tensor:
    return x.detach().to(torch.float64, copy=True)


def is_new(y: Tensor, args: tuple[Any, ...]) -> bool:
    """True if a view has nothing to do with what a module was given."""
    given = [x for x in args if isinstance(x, Tensor)]
    return all(y._base is not x and y._base is not x._base for x in given)


class Hooks:
    """Plain hooks on all modules; what a micro-batch left is in ``calls``."""

    def __init__(self, model: nn.Module) -> None:
        self.calls: dict[str, list[Call]] = defaultdict(list)
        for name, module in model.named_modules():
            module.register_forward_pre_hook(self._before(name), with_kwargs=True)
            module.register_forward_hook(self._after(name))

    def _before(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
            x = first_tensor([*args, *kwargs.values()])
            self.calls[name].append(Call(double(x), dtypes={"x": x.dtype}))

        return hook

    def _after(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> Any:
            call = next(c for c in reversed(self.calls[name]) if c.y is None)
            y = first_tensor(output)
            if output is y and y._is_view() and is_new(y, args):
                # Autograd writes the history of a view anew where it is changed in place.
                output = y = y.clone()
            call.y, call.dtypes["y"] = double(y), y.dtype
            of_node(y, call)
            return output

        return hook


def of_node(y: Tensor, call: Call) -> None:
    """Keeps the gradient that reaches the node of a tensor, whatever changes it in place later."""
    if y.grad_fn is None:
        return
    place = y.output_nr

    def hook(gradients: tuple[Tensor | None, ...]) -> None:
        if gradients[place] is not None:
            g = double(gradients[place])
            call.g_y = g if call.g_y is None else call.g_y + g

    y.grad_fn.register_prehook(hook)


@dataclass(frozen=True)
class Example:
    """A model, its batches by step and micro-batch, and a configuration."""

    recipe: Any
    steps: tuple[tuple[int, ...], ...]
    cfg: Any
    scale: float


@st.composite
def examples(draw: st.DrawFn) -> Example:
    recipe = draw(models())
    steps = st.lists(st.integers(2, 4), min_size=1, max_size=3).map(tuple)
    cfg = draw(configs(recipe.make(), quantities=[n for n in PROOFS if n not in LEFT_OUT]))
    return Example(
        recipe,
        draw(st.lists(steps, min_size=1, max_size=4).map(tuple)),
        cfg,
        draw(st.sampled_from((1.0, 2.0, 1024.0))),
    )


def batches(example: Example) -> Iterator[tuple[int, list[Tensor]]]:
    for i, sizes in enumerate(example.steps):
        yield i, [example.recipe.input(n, seed=100 * i + k).make() for k, n in enumerate(sizes)]


def seen_of(parts: list[Call], module: nn.Module, step: int, scale: float) -> Seen:
    named = dict(module.named_parameters())
    gradients = [c.g_y for c in parts if c.g_y is not None]
    nothing = [torch.empty(0, dtype=torch.float64)]
    return Seen(
        x=torch.cat([c.x for c in parts] or nothing),
        y=torch.cat([c.y for c in parts if c.y is not None] or nothing),
        g_x=None,
        g_y=torch.cat(gradients) / scale if gradients else None,
        module=copy.deepcopy(module),
        parameters={k: double(p) for k, p in named.items()},
        gradients={k: double(p.grad) / scale for k, p in named.items() if p.grad is not None},
        buffers={k: double(b) for k, b in module.named_buffers()},
        dtypes={**(parts[0].dtypes if parts else {}), **{k: p.dtype for k, p in named.items()}},
        step=step,
        sizes=tuple(len(c.x) for c in parts),
    )


def train(model: nn.Module, example: Example, track: Any, batch: Any = lambda: None) -> None:
    torch.manual_seed(0)
    for i, parts in batches(example):
        model.zero_grad()
        for x in parts:
            loss = total(model(x))
            if loss.requires_grad:
                (loss * example.scale).backward()
            batch()
        track(i)
        with torch.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    p -= 0.01 / example.scale * p.grad


def seen_by_hooks(example: Example) -> dict[tuple[str, int | None], dict[int, Seen]]:
    """What each call of each module saw, by step; and each module's parameters, of no call."""
    model = example.recipe.make()
    modules, hooks = dict(model.named_modules()), Hooks(model)
    now: dict[tuple[str, int], list[Call]] = defaultdict(list)
    found: dict[tuple[str, int | None], dict[int, Seen]] = defaultdict(dict)

    def batch() -> None:
        for name, calls in hooks.calls.items():
            for number, call in enumerate(calls):
                now[name, number].append(call)
        hooks.calls.clear()

    def track(step: int) -> None:
        for (name, number), parts in now.items():
            found[name, number][step] = seen_of(parts, modules[name], step, example.scale)
        for name, module in modules.items():
            found[name, None][step] = seen_of([], module, step, example.scale)
        now.clear()

    train(model, example, track, batch)
    return found


def monitored(example: Example) -> taiyi_fx.Monitor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        model = taiyi_fx.instrument(example.recipe.make(), example.cfg)
        train(model, example, lambda i: model.monitor.track(i, grad_scale=example.scale))
        assert model.monitor.records is not None
    return model.monitor


def expected_of(subscription: Any, seen: dict[int, Seen], steps: int) -> Iterator[tuple[int, Seen]]:
    """What the reference takes at each step that is due."""
    options = {name: value for name, value in subscription.options if value != "auto"}
    before, window = None, []
    for step in range(steps):
        if step in seen:
            window.append(dataclasses.replace(seen[step], options=options))
        if not any(schedule.is_due(step) for schedule in subscription.schedules):
            continue
        if step in seen:
            now = dataclasses.replace(window[-1], before=before, window=tuple(window))
            yield step, now
            before = now
        window = []


def of_label(value: Any, subscription: Any) -> Any:
    """The part of a reference's value that is of the subscription's own parameter."""
    part = subscription.label.removeprefix(f"{subscription.quantity.name}.")
    if part == subscription.label or not isinstance(value, dict):
        return value
    return value.get(part.partition("(")[0])  # without options, which tell two of a name apart


def check(example: Example) -> int:
    """Compares each number; how many there were."""
    seen, monitor = seen_by_hooks(example), monitored(example)
    steps, compared = len(example.steps), 0
    by_module: dict[str, list[Any]] = defaultdict(list)
    for record in monitor.records:
        by_module[record.module].append(record)
    for subscription in monitor.subscriptions:
        proof = PROOFS[subscription.quantity.name]
        if "max_elements" in dict(subscription.options) and proof.options is not BOUND:
            continue  # its reference takes whole tensors
        calls = [number for name, number in seen if name == subscription.module]
        for number in calls:
            if (number is not None) != subscription.is_at_calls:
                continue
            of_call = seen[subscription.module, number]
            name = subscription.module + (f"@{number}" if number else "")
            found = recorded(by_module[name], subscription.label, tuple(range(steps)))
            for step, now in expected_of(subscription, of_call, steps):
                needs_gradient = "output_grad" in {
                    r.site.port for r in subscription.readings.values()
                }
                missing = needs_gradient and now.g_y is None
                with np.errstate(all="ignore"):
                    expected = None if missing else proof.reference(now)
                    floor = proof.floor(now) if proof.floor and expected is not None else 0.0
                problem = disagreement(
                    found[step],
                    of_label(expected, subscription),
                    rel=promised(subscription.quantity.name),
                    floor=of_label(floor, subscription),
                )
                assert problem is None, (
                    f"{subscription.label} of {name!r} at step {step}: {problem}\n{example}"
                )
                compared += 1
    return compared


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(i, marks=pytest.mark.exhaustive) for i in (1, 2, 3))]
)
def test_every_number_is_what_its_reference_says(part):
    compared = []
    number = random.Random(part).getrandbits(32) if EXAMPLES > 60 else part

    @seed(number)
    @settings(
        max_examples=max(1, EXAMPLES // 4),
        deadline=None,
        database=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(example=examples())
    def run(example):
        compared.append(check(example))

    run()
    assert sum(compared) > EXAMPLES
