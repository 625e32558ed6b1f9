"""A preset: what is asked of which modules, wherever a model has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

Fits = Callable[[str, nn.Module], bool]
"""A predicate of a module's name and the module."""

OptionsOf = Callable[[str, Mapping[str, nn.Module]], "Mapping[str, Any] | None"]
"""Takes a module's name and all modules to options of its own; None leaves the module out."""


@dataclass(frozen=True)
class Part:
    """Entries for modules of a kind; where a model has none, or they lack a tensor, for nothing.

    Attributes:
        of: The modules, in words.
        fits: True for these modules.
        entries: The quantities, as in a configuration.
        options: Options that differ from module to module, by its place in the model.
    """

    of: str
    fits: Fits = field(repr=False)
    entries: tuple[Any, ...]
    options: OptionsOf | None = field(default=None, repr=False)

    @property
    def quantities(self) -> list[str]:
        """The names of the quantities."""
        return [entry if isinstance(entry, str) else entry[0] for entry in self.entries]


@dataclass(frozen=True)
class Preset:
    """A configuration for a kind of model; to combine with others, in a list of its parts.

    Attributes:
        name: Its name.
        models: The models that it is for, in words.
        parts: What it asks for.
    """

    name: str
    models: str
    parts: tuple[Part, ...]

    def __iter__(self) -> Iterator[Part]:
        """Its parts, for a configuration of several: ``[*preset("transformer"), own]``."""
        return iter(self.parts)

    def __repr__(self) -> str:
        return "\n".join([f"{self.name}: for {self.models}", *map(_line, self.parts)])


class Presets(list[Preset]):
    """All presets, one after the other, as text too."""

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self))


def _line(part: Part) -> str:
    return f"  {part.of}: {', '.join(map(_shown, part.entries))}"


def _shown(entry: Any) -> str:
    return entry if isinstance(entry, str) else f"{entry[0]} {entry[1]}"
