"""Code of a few lines, and what a reader finds in it."""

import ast
import textwrap

from taiyi_fx.findings.facts.source.of_loop import _READERS, _has_any
from taiyi_fx.findings.facts.source.syntax import parsed


def found_in(code, read):
    """The lines and the text of what a reader finds, by which it has to be asked at all."""
    code = textwrap.dedent(code)
    found = [(one.lineno, ast.unparse(one)) for one in read(parsed(code))]
    asked = [_has_any(code.lower(), words) for reader, words in _READERS.values() if reader is read]
    assert not found or all(asked), "no word of the reader is in this code"
    return found
