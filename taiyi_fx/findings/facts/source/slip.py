"""A place in source whose code does not what it seems to."""

from __future__ import annotations

import ast
from typing import NamedTuple

_LONGEST = 60
"""Characters of code in a sentence."""
_NAME = 30
"""Characters of the name of what is called, behind which its arguments begin."""


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
    """The code of an expression, where it is long its end; of a plain call its beginning."""
    code = ast.unparse(node)
    if len(code) <= _LONGEST:
        return code
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else code
    return f"{code[: _LONGEST - 4]} ..." if len(name) <= _NAME else f"... {code[4 - _LONGEST :]}"
