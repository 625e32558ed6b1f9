"""Code of a few lines, and what a reader finds in it."""

import ast
import textwrap


def found_in(code, read):
    """The lines and the text of what a reader finds."""
    tree = ast.parse(textwrap.dedent(code))
    return [(one.lineno, ast.unparse(one)) for one in read(tree)]
