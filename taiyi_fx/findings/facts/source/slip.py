"""A place in source whose code does not what it seems to."""

from __future__ import annotations

import ast
from typing import NamedTuple

_LONGEST = 60
"""Characters of code in a sentence."""


class Slip(NamedTuple):
    """An expression that does not what it seems to.

    Attributes:
        code: Its text, such as ``"x.masked_fill(mask, 0)"``.
        place: The file and the line, such as ``"model.py:31"``.
        kind: The kind of the finding that tells it.
    """

    code: str
    place: str
    kind: str


def shortened(node: ast.AST) -> str:
    """The code of an expression, of which the end stays, where it is long."""
    code = ast.unparse(node)
    return code if len(code) <= _LONGEST else f"... {code[4 - _LONGEST :]}"
