"""Tags, file names, packages that are not there, and what an import brings along."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx.writers.names import Tags, safe
from tests.writers.given import NAMES, run


@pytest.mark.parametrize(
    ("series", "mode", "tag"),
    [
        (("layers.0", "InputMean"), "train", "InputMean/layers.0"),
        (("layers.0", "InputMean"), "eval", "evaluation/InputMean/layers.0"),
        (("", "loss"), "train", "loss"),
        (("", "val/loss"), "eval", "evaluation/val/loss"),
        (("a/b", "InputMean"), "train", "InputMean/a%2Fb"),
        (("", "InputMean/fc"), "train", "InputMean%2Ffc"),
        (("", "InputMean.x/fc"), "train", "InputMean.x%2Ffc"),
        (("", "evaluation/loss"), "train", "evaluation%2Floss"),
        (("", "50 %"), "train", "50 %25"),
        (("a\nb", "InputMean"), "train", "InputMean/a%0Ab"),
        (("\udc80", "InputMean"), "train", "InputMean/%ED%B2%80"),
    ],
)
def test_a_tag_is_the_quantity_and_the_module(series, mode, tag):
    assert Tags(run()).of(series, mode) == tag


SERIES = st.tuples(st.just("") | NAMES, NAMES | st.sampled_from(["InputMean", "InputMean/fc"]))


@given(
    a=st.tuples(SERIES, st.sampled_from(["train", "eval"])),
    b=st.tuples(SERIES, st.sampled_from(["train", "eval"])),
)
def test_different_series_have_different_tags(a, b):
    quantities = tuple({s[1] for s, _ in (a, b) if s[0]})
    tags = Tags(run(quantities=quantities))
    assert (a == b) == (tags.of(*a) == tags.of(*b))
    assert tags.of(*a).isprintable()


@given(a=NAMES, b=NAMES)
def test_different_texts_have_different_safe_names(a, b):
    assert (a == b) == (safe(a) == safe(b))


@given(text=NAMES)
def test_a_safe_name_is_part_of_a_path(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    file = folder / safe(text)
    file.write_text("")
    assert file.resolve().parent == folder.resolve()


@pytest.mark.parametrize("name", ["fc", "layers.0", "InputMean", "fc@1", "_a-b", "x" * 100])
def test_a_plain_name_stays_as_it_is(name):
    assert safe(name) == name


def test_a_name_that_looks_like_a_hashed_one_is_hashed():
    hashed = safe("a/b")
    assert hashed.startswith("a_b-")
    assert safe(hashed) != hashed
