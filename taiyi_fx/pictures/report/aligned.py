"""Modules of two models side by side: by name, by name without wrappers, and by structure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from taiyi_fx.outline import Outline

_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "module")
"""Parts of names that compilers and wrappers put before those of the model."""


class Modules(NamedTuple):
    """The modules of a model that have records.

    Attributes:
        names: Their names, in the order of execution.
        classes: Their classes, where they are known.
    """

    names: Sequence[str]
    classes: Mapping[str, str]

    @staticmethod
    def of(names: Iterable[str], outline: Outline | None) -> Modules:
        """Modules by name, in the order of a model's outline; without it as they come."""
        items = outline.items if outline else ()
        classes = {item.module: item.class_name for item in items if item.module}
        order = {item.module: place for place, item in reversed([*enumerate(items)])}
        named = sorted(dict.fromkeys(names), key=lambda name: order.get(name, len(items)))
        return Modules(named, {name: of for name, of in classes.items() if of})

    def token(self, name: str) -> str:
        """A module's class; where it is not known, its role: its name without numbers."""
        return self.classes.get(name) or re.sub(r"\d+", "*", name)


def aligned(first: Modules, other: Modules) -> dict[str, str]:
    """The modules of a model by those of another, each with its like in the first.

    Modules of one name are alike and left out. The others are by their names without wrappers, and
    what is left by the longest stretches of the same classes, in the order of execution.

    Args:
        first: The modules of the first model.
        other: Those of the other.

    Returns:
        Names of the first model, by those of the other.
    """
    found = {name: name for name in set(first.names) & set(other.names)}
    bare = _unique((_bare(name), name) for name in first.names if name not in found)
    for name in other.names:
        like = bare.get(_bare(name))
        if name not in found and like is not None and like not in found.values():
            found[name] = like
    found |= dict(_by_structure(first, other, found))
    return {name: like for name, like in found.items() if name != like}


def _bare(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def _unique(pairs: Iterator[tuple[str, str]]) -> dict[str, str]:
    """A dictionary of pairs, without keys that come twice."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for key, value in pairs:
        twice |= {key} & found.keys()
        found[key] = value
    return {key: value for key, value in found.items() if key not in twice}


def _by_structure(
    first: Modules, other: Modules, found: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    # Pairs that are known stand in both lists as one word: others are sought between them.
    known = {like: f"={like}" for like in found.values()}
    words = [known.get(name, first.token(name)) for name in first.names]
    others = [known.get(found.get(name, ""), other.token(name)) for name in other.names]
    matcher = difflib.SequenceMatcher(None, words, others, autojunk=False)
    for start, at, size in matcher.get_matching_blocks():
        for k in range(size):
            if other.names[at + k] not in found:
                yield other.names[at + k], first.names[start + k]
