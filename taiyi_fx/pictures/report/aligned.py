"""Modules of two models side by side: by name, by name without wrappers, and by structure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from taiyi_fx.outline import Outline

_HALF = 0.5
"""The share of a smaller model's modules that another has, too, of which it is a version."""
_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "module")
"""Parts of names that compilers and wrappers put before those of the model."""


class Modules(NamedTuple):
    """The modules of a model that have records.

    Attributes:
        names: Their names, in the order of execution.
        classes: Their classes, where they are known.
        families: Their families, such as ``"norm"``, where they are known.
    """

    names: Sequence[str]
    classes: Mapping[str, str]
    families: Mapping[str, str] = MappingProxyType({})

    @staticmethod
    def of(names: Iterable[str], outline: Outline | None) -> Modules:
        """Modules by name, in the order of a model's outline; without it as they come."""
        items = outline.items if outline else ()
        classes = {item.module: item.class_name for item in items if item.module}
        order = {item.module: place for place, item in reversed([*enumerate(items)])}
        named = sorted(dict.fromkeys(names), key=lambda name: order.get(name, len(items)))
        families = {item.module: item.family for item in items if item.module and item.family}
        return Modules(named, {name: of for name, of in classes.items() if of}, families)

    def tokens(self) -> list[str]:
        """Each module's class; where it is not known, its role: its name without numbers."""
        return [self.classes.get(name) or re.sub(r"\d+", "*", name) for name in self.names]

    def kinds(self) -> list[str]:
        """Each module's family, or that it has parts; where it is of none, its class."""
        parents = {name[: at.start()] for name in self.names for at in re.finditer(r"\.", name)}
        return [
            self.families.get(name) or ("parts" if name in parents else token)
            for name, token in zip(self.names, self.tokens(), strict=True)
        ]


def aligned(first: Modules, other: Modules) -> dict[str, str]:
    """The modules of a model by those of another, each with its like in the first.

    Modules of one name are alike and left out. The others are by their names without wrappers, and
    what is left by the longest stretches of the same classes, in the order of execution; and then
    of the same families, as models that were written apart have classes of their own.

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
    found |= dict(_by_structure(first, other, first.tokens(), other.tokens(), found))
    found |= dict(_by_structure(first, other, first.kinds(), other.kinds(), found))
    return {name: like for name, like in found.items() if name != like}


def are_alike(first: Modules, other: Modules) -> bool:
    """True if half of the smaller model's modules and more are in the other, in the same order.

    Their classes are; without any module nothing is known, and they may be.
    """
    ours, theirs = first.tokens(), other.tokens()
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    shared = sum(block.size for block in matcher.get_matching_blocks())
    return shared >= _HALF * min(len(ours), len(theirs))


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
    first: Modules,
    other: Modules,
    words: Sequence[str],
    others: Sequence[str],
    found: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    # Pairs that are known stand in both lists as one word: others are sought between them.
    known = {like: f"={like}" for like in found.values()}
    ours = [known.get(name, word) for name, word in zip(first.names, words, strict=True)]
    theirs = [
        known.get(found.get(name, ""), word) for name, word in zip(other.names, others, strict=True)
    ]
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    for start, at, size in matcher.get_matching_blocks():
        for k in range(size):
            if other.names[at + k] not in found:
                yield other.names[at + k], first.names[start + k]
