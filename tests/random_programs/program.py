"""A program: classes made of fragments, steps with changes, and what is watched; and its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import indent

HEADER = """\
import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import operator
import random
import sys
import threading
import warnings
import weakref

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint"""


@dataclass(frozen=True)
class Fragment:
    """A feature as it stands in one class, its choices made."""

    feature: str
    forward: str
    init: str = ""
    top: str = ""
    body: str = ""
    parameter: str = ""
    decorator: str = ""
    inner: tuple[Fragment, ...] = ()

    def all(self) -> Iterator[Fragment]:
        """It and those in it."""
        yield self
        for fragment in self.inner:
            yield from fragment.all()

    def statements(self, returns: str) -> str:
        """Its part of a forward that ends with ``return`` and the given expression."""
        text = re.sub(r"\bRETURN\b", f"return {returns}", self.forward)
        within = "x" if "def inner" in text else returns
        body = "\n".join(f.statements(within) for f in self.inner) or "pass"
        return re.sub(r"^( *)BODY$", lambda m: indent(body, m[1]), text, flags=re.M)


@dataclass(frozen=True)
class Part:
    """A class of the program."""

    name: str
    signature: str
    returns: str
    fragments: tuple[Fragment, ...]

    def all(self) -> list[Fragment]:
        """All fragments, those in others included."""
        return [g for f in self.fragments for g in f.all()]

    def source(self) -> str:
        """The class as Python."""
        fragments = self.all()
        usual, _, rest = self.signature.partition(", *")
        own = _there(f.parameter for f in fragments)
        star = ["*" + rest] if rest and not rest.startswith("*") else ["*"] if own else []
        last = ["*" + rest] if rest.startswith("*") else []
        signature = ", ".join([usual, *star, *own, *last])
        forward = "\n".join(f.statements(self.returns) for f in self.fragments) or "pass"
        methods = [
            *_there(f.body for f in fragments),
            "def __init__(self):\n"
            + indent("\n".join(["super().__init__()", *_there(f.init for f in fragments)]), "    "),
            "\n".join([*_there(f.decorator for f in fragments), f"def forward(self, {signature}):"])
            + "\n"
            + indent(f"{forward}\nreturn {self.returns}", "    "),
        ]
        return f"class {self.name}(nn.Module):\n" + indent("\n\n".join(methods), "    ")


@dataclass(frozen=True)
class Change:
    """A statement between two steps; a patch of torch is one for both sides."""

    text: str

    @property
    def is_shared(self) -> bool:
        """Whether it is made once, for both sides."""
        return self.text.startswith("patch(")


@dataclass(frozen=True)
class Step:
    """What happens before a step, and how it goes."""

    changes: tuple[Change, ...] = ()
    batch: int = 3
    masked: bool = False
    ways: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """An entry of the configuration: key, quantity, schedule."""

    key: str
    quantity: str
    schedule: str


@dataclass(frozen=True)
class Program:
    """All that is run: classes, the last of which is the model's, steps, and what is watched."""

    seed: int
    parts: tuple[Part, ...]
    steps: tuple[Step, ...]
    entries: tuple[Entry, ...]

    def used(self) -> tuple[Part, ...]:
        """The classes that are reached."""
        kept: list[Part] = [self.parts[-1]]
        for part in reversed(self.parts[:-1]):
            if any(re.search(rf"\b{part.name}\b", k.source()) for k in kept):
                kept.append(part)
        return tuple(reversed(kept))

    def features(self) -> list[str]:
        """The names of the features in it."""
        return sorted({f.feature for part in self.used() for f in part.all()})

    def source(self) -> str:
        """The module's text."""
        parts = self.used()
        tops = dict.fromkeys(_there(f.top for part in parts for f in part.all()))
        imports = [t for t in tops if t.startswith(("from ", "import "))]
        others = [t for t in tops if t not in imports]
        make = f"def make():\n    return {parts[-1].name}()"
        rest = "\n\n\n".join([*others, *(p.source() for p in parts), make]) + "\n"
        return "\n".join([_header(rest), *imports]) + "\n\n\n" + rest

    def text(self) -> str:
        """All of it, to be read: the module, then the steps as comments."""
        lines = [f"# watched: {[(e.key, e.quantity, e.schedule) for e in self.entries]}"]
        for number, step in enumerate(self.steps):
            how = ", ".join([f"batch {step.batch}", *["mask"] * step.masked, *step.ways])
            lines.append(f"# step {number}: {how}")
            lines += [f"#     {change.text}" for change in step.changes]
        return self.source() + "\n\n" + "\n".join(lines) + "\n"


def _header(text: str) -> str:
    """The imports of what a text uses."""
    lines = HEADER.splitlines()
    return "\n".join(k for k in lines if not k or re.search(rf"\b{k.split()[-1]}\b", text)).strip()


def _there(texts: Iterator[str]) -> list[str]:
    return [text for text in texts if text]
