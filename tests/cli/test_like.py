"""Series under the names of another run's."""

import taiyi_fx
from taiyi_fx.cli.like import aligned_modules, under_names_of
from tests.cli.test_compare import renamed


def test_series_of_wrapped_modules_have_the_names_of_the_first_run(tmp_path):
    one = renamed(tmp_path / "one", [[1.0, 2.0]], "")
    other = renamed(tmp_path / "two", [[1.0, 2.0, 3.0]], "module.")
    with taiyi_fx.open_run(one) as first, taiyi_fx.open_run(other) as second:
        named = under_names_of(first, second, first.spans())
        own = under_names_of(first, first, first.spans())
    assert {name.module: like.module for name, like in named.items()} == {
        "a": "module.a",
        "b": "module.b",
        "module.c": "module.c",
    }
    assert aligned_modules(named) == 2
    assert aligned_modules(own) == 0
    assert {name: name for name in own} == own
