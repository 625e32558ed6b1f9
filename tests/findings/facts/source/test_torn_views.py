"""Views that mix the numbers of their axes."""

import pytest

from taiyi_fx.findings.facts.source.torn_views import torn_views
from tests.findings.facts.source.reading import found_in

CODE = """
def to_tensor(x, other):
    n, h, w, c = {sizes}
    {between}
    return {view}
"""


def lines(view="x.reshape(n, c, h, w)", sizes="x.shape", between="pass"):
    return found_in(CODE.format(sizes=sizes, between=between, view=view), torn_views)


@pytest.mark.parametrize("sizes", ["x.shape", "x.size()"])
@pytest.mark.parametrize("view", ["x.reshape(n, c, h, w)", "x.view((n, c, h, w))"])
def test_sizes_in_another_order_are_found(sizes, view):
    assert lines(view, sizes) == [(5, view)]


@pytest.mark.parametrize(
    ("view", "between"),
    [
        ("x.permute(0, 3, 1, 2)", "pass"),
        ("x.reshape(n, h, w, c)", "pass"),
        ("x.reshape(n, c, h * w)", "pass"),
        ("x.reshape(n, c, h, w)", "x = x.permute(0, 3, 1, 2)"),
        ("other.reshape(n, c, h, w)", "pass"),
        ("x.permute(0, 3, 1, 2).reshape(n, c, h, w)", "pass"),
    ],
)
def test_others_are_none(view, between):
    assert lines(view, between=between) == []


def test_sizes_are_those_of_the_same_function_and_before():
    assert found_in("n, c = x.shape\ndef f(x):\n    return x.view(c, n)\n", torn_views) == []
    assert found_in("y = x.view(c, n)\nn, c = x.shape\n", torn_views) == []


def test_an_axis_behind_a_new_one_is_found():
    code = "x.view(x.size(0), heads, x.size(1), d)"
    assert found_in(code, torn_views) == [(1, code)]
    assert found_in("x.view(x.size(0), x.size(1), heads, d)", torn_views) == []
