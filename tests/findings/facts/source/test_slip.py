"""A place in source."""

import ast

from taiyi_fx.findings.facts.source.slip import shortened


def test_of_long_code_the_end_stays():
    code = f"f({', '.join(['argument'] * 20)}).step()"
    text = shortened(ast.parse(code))
    assert len(text) == 60
    assert text.startswith("... ")
    assert code.endswith(text[4:])
    assert shortened(ast.parse("f(x)")) == "f(x)"


def test_of_a_long_plain_call_the_beginning_stays():
    code = f"torch.optim.Adam({', '.join(['argument'] * 20)})"
    text = shortened(ast.parse(code).body[0].value)
    assert len(text) == 60
    assert text.endswith(" ...")
    assert code.startswith(text[:-4])
