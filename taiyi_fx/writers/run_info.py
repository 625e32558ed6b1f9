"""The facts about a run and its series, as its writers get them."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.outline import Outline
from taiyi_fx.passes.ir import GRADIENT_PORTS
from taiyi_fx.quantities.health import to_stored
from taiyi_fx.records.record import Series
from taiyi_fx.version import __version__
from taiyi_fx.writers.protocol import Direction, RunInfo, SeriesInfo


def run_info(
    root: nn.Module,
    modules: Mapping[str, nn.Module],
    subscriptions: Sequence[Subscription],
    start_step: int,
    rank: int,
    outline: Callable[[], Outline],
    part: str = "",
    launch: str = "",
) -> RunInfo:
    """The facts about a run before its first record."""
    kind = type(root)
    return RunInfo(
        model=f"{kind.__module__}.{kind.__qualname__}",
        config=[_entry(s) for s in subscriptions],
        versions={
            "python": platform.python_version(),
            "torch": torch.__version__,
            "taiyi_fx": __version__,
        },
        seed=torch.initial_seed(),
        start_step=start_step,
        rank=rank,
        describe=describer(modules, subscriptions),
        outline=outline,
        part=part,
        launch=launch,
    )


def describer(
    modules: Mapping[str, nn.Module], subscriptions: Sequence[Subscription]
) -> Callable[[Series], SeriesInfo]:
    """A function that gives the facts about a series."""
    asked = {s.label: s for s in subscriptions}
    directions: dict[str, Direction] = {label: _direction(s) for label, s in asked.items()}
    units = {(s.module, s.label): s.unit for s in subscriptions}

    def describe(series: Series) -> SeriesInfo:
        name, quantity = series
        module, call = _call(name, modules)
        label = next((x for x in _prefixes(quantity) if x in asked), None)
        if label is None:
            return SeriesInfo(module, call, quantity, "", "")
        of = asked[label]
        # A part, such as ``RankMe.N``, may be in another unit.
        unit = units.get((module, label), of.unit) if label == quantity else ""
        made = of.quantity
        health = to_stored(made.health, unit, undefined=made.may_be_undefined)
        return SeriesInfo(module, call, quantity, directions[label], unit, health)

    return describe


def _entry(s: Subscription) -> dict[str, object]:
    return {
        "module": s.module,
        "quantity": s.label,
        "schedule": " | ".join(map(str, s.schedules)),
        "options": {name: _json_value(value) for name, value in s.options},
    }


def _json_value(value: object) -> object:
    is_plain = isinstance(value, (str, int, float, bool, type(None)))
    return value if is_plain else repr(value)


def _direction(s: Subscription) -> Direction:
    ports = {reading.site.port for reading in s.readings.values()}
    if not ports.isdisjoint((*GRADIENT_PORTS, "parameter_grad", "gradients", "step")):
        return "backward"
    return "parameter" if ports and ports <= _OF_PARAMETERS else "forward"


_OF_PARAMETERS = {"parameter", "buffer", "optimizer", "first_moment", "second_moment"}


_CALL = re.compile(r"(.*)@([1-9][0-9]{0,8})", re.DOTALL)


def _call(name: str, modules: Mapping[str, nn.Module]) -> tuple[str, int]:
    """A module and its call, from the name that records have; a module's own name may end alike."""
    found = None if name in modules else _CALL.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, 0)


def _prefixes(quantity: str) -> list[str]:
    """The name and the quantities that it may belong to: ``A.b.c``, ``A.b``, ``A``."""
    parts = quantity.split(".")
    return [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
