"""Configurations of several parts: mappings, presets and names of such, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor, nn
from torch.optim import Optimizer

from taiyi_fx.config.entries import place
from taiyi_fx.config.presets import PRESETS, OptionsOf, Part, Preset, fitting
from taiyi_fx.quantities.declare import find_quantity
from taiyi_fx.suggestion import suggestion

Cfg: TypeAlias = "Mapping[Any, Any] | str | Preset | Part | Sequence[Any] | None"
"""What a user gives: a mapping, a preset or its name, several of these, or nothing."""


_WORDS_FOR_FITTING = ("default", "auto", "automatic", "fitting", "preset")


class Ask(NamedTuple):
    """The requests under one key.

    Attributes:
        path: The key's place in the configuration, for errors.
        key: The key.
        entries: What is listed there.
        is_optional: True if it is asked of modules that can have it, and may match none.
        options: Gives options of each module's own, where it has such.
    """

    path: str
    key: Any
    entries: Any
    is_optional: bool
    options: OptionsOf | None = None


def asks(model: nn.Module, cfg: Cfg, problems: list[str]) -> Iterator[Ask]:
    """All that a configuration asks for, in order; adds errors to the problems.

    Raises:
        TypeError: It is not a configuration.
    """
    cfg = fitting(model) if cfg is None else cfg
    if isinstance(cfg, (list, tuple)):
        cfg = [fitting(model) if part is None else part for part in cfg]
    yield from _asks("cfg", cfg, problems)


def _asks(path: str, cfg: Any, problems: list[str]) -> Iterator[Ask]:
    if isinstance(cfg, str):
        if cfg in PRESETS:
            yield from _asks(path, PRESETS[cfg], problems)
        else:
            problems.append(f"{path}: {_unknown(cfg)}")
    elif isinstance(cfg, Part):
        yield Ask(f"{path}[{cfg.of}]", cfg.fits, cfg.entries, is_optional=True, options=cfg.options)
    elif isinstance(cfg, Mapping):
        for key, entries in cfg.items():
            yield Ask(place(key, path), key, entries, is_optional=False)
    elif isinstance(cfg, (list, tuple)):
        for i, part in enumerate(cfg):
            yield from _asks(f"{path}[{i}]", part, problems)
    elif isinstance(cfg, Preset):
        for part in cfg:
            yield from _asks(path, part, problems)
    else:
        raise TypeError(
            "a configuration maps modules to lists of quantities, such as "
            "{'Conv2d': ['InputSndNorm']}; or it is a preset, its name, or a list of these; but "
            f"{'this' if path == 'cfg' else path} is a {type(cfg).__name__}{_instead(cfg)}"
        )


def _instead(given: Any) -> str:
    """The place for what is no configuration, if it is known."""
    if isinstance(given, Optimizer):
        return ": pass it as optimizer=..."
    if isinstance(given, Tensor):
        return ": a batch comes after the configuration, as in verify(model, None, x)"
    return ""


def _unknown(name: str) -> str:
    if find_quantity(name) is not None:
        return f"a quantity is asked for of modules, such as {{'Linear': [{name!r}]}}"
    text = f"no preset is named {name!r}.{suggestion(name, [*PRESETS])}"
    if name in _WORDS_FOR_FITTING:
        text += " None, in place of a name, is the preset that fits the model"
    return text
