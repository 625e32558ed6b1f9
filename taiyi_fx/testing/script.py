"""Python programs as text: their imports, and the definitions that they need."""

from __future__ import annotations

import re
from collections.abc import Sequence

from taiyi_fx.quantities.declare import Quantity, find_quantity
from taiyi_fx.testing.literals import quoted
from taiyi_fx.testing.source import Excerpt, excerpt_of

_TESTING = (
    "BatchNorm1dLike", "BatchNorm2dLike", "Conv1dLike", "Conv2dLike", "LinearLike", "PlainLike",
    "Chain", "assert_agrees", "assert_faithful", "make_tensor",
)  # fmt: skip


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
