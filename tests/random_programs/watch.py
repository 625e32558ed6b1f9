"""How a model is watched: by taiyi_fx, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

import taiyi_fx

Cfg = Mapping[Any, list[list[str]]]


@dataclass(frozen=True)
class Watched:
    """What is called in place of a model, and what a training loop calls after backward."""

    model: nn.Module
    track: Callable[[int], Any]


Watch = Callable[[nn.Module, Cfg], Watched]


def instrumented(model: nn.Module, cfg: Cfg) -> Watched:
    """The model as taiyi_fx watches it."""
    try:
        made = taiyi_fx.instrument(model, cfg)
    except taiyi_fx.ConfigError:  # what a layer does not have is said; something is there for all
        made = taiyi_fx.instrument(model, {"": ["OutputRMS"]})
    return Watched(made, type(made).monitor.__get__(made).track)


def left_alone(model: nn.Module, cfg: Cfg) -> Watched:
    """The model itself."""
    return Watched(model, lambda step: None)
