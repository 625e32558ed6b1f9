"""Modules in the order of execution, of which an outline shows a part."""

from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx.findings.facts.places import in_order

SHOWN = ["emb", "h", "h.0", "h.0.mix", "h.0.norm", "h.3", "h.3.norm", "h.3.mix", "h.4", "head"]


def test_modules_that_are_shown_stand_as_they_are_executed():
    names = ["", "head", "h.0.norm", "h.0.mix", "h.3.mix", "h.3.norm", "emb"]
    ordered = ["", "emb", "h.0.mix", "h.0.norm", "h.3.norm", "h.3.mix", "head"]
    assert in_order(names, SHOWN) == ordered


def test_those_of_a_run_of_which_the_first_is_shown_stand_behind_it_and_in_its_order():
    names = [f"h.{i}.{part}" for i in (0, 1, 2, 3) for part in ("norm", "mix")]
    ordered = ["h.0.mix", "h.0.norm", "h.1.mix", "h.1.norm", "h.2.mix", "h.2.norm"]
    assert in_order(names, SHOWN) == [*ordered, "h.3.norm", "h.3.mix"]


def test_what_is_not_shown_comes_last_within_the_module_around_it():
    names = ["unused", "h.0.other", "h.0.mix", "emb"]
    assert in_order(names, SHOWN) == ["emb", "h.0.mix", "h.0.other", "unused"]


def test_without_an_outline_they_stay_as_they_were():
    assert in_order(["b", "a"], []) == ["b", "a"]


NAMES = st.lists(
    st.lists(st.sampled_from(["0", "1", "2", "a", "b@1"]), max_size=3).map(".".join), unique=True
)


@given(NAMES, NAMES)
def test_no_module_is_lost_and_each_is_behind_the_one_around_it(names, shown):
    ordered = in_order(names, [name for name in shown if name])
    assert sorted(ordered) == sorted(names)
    if any(shown):
        for i, name in enumerate(ordered):
            assert not any(name.startswith(f"{later}.") for later in ordered[i:])
