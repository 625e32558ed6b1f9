"""A place in source."""

import ast

from taiyi_fx.findings.facts.source.slip import shortened


def test_of_long_code_the_end_stays():
    code = f"f({', '.join(['argument'] * 20)})"
    text = shortened(ast.parse(code))
    assert len(text) == 60
    assert text.startswith("... ")
    assert code.endswith(text[4:])
    assert shortened(ast.parse("f(x)")) == "f(x)"
