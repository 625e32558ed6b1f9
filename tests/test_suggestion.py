"""What is proposed to someone who wrote a word that is not known."""

import pytest

from taiyi_fx.suggestion import suggestion

KNOWN = ["Conv2d", "Linear", "layer1.fc"]


@pytest.mark.parametrize(("word", "meant"), [
    ("conv2D", "Conv2d"), ("Linaer", "Linear"), ("module.layer1.fc", "layer1.fc"),
    ("_orig_mod.Linear", "Linear"),
])  # fmt: skip
def test_a_word_that_is_nearly_known_is_proposed(word, meant):
    assert suggestion(word, KNOWN) == f" Did you mean {meant!r}?"


def test_a_wrapped_name_is_proposed_to_who_left_the_wrapper_out():
    assert suggestion("fc", ["module.fc"]) == " Did you mean 'module.fc'?"


def test_of_many_that_are_unlike_the_first_are_listed():
    assert suggestion("zzz", KNOWN) == " Known are 'Conv2d', 'Linear', 'layer1.fc'"
    assert suggestion("zzz", [f"{n}" for n in range(9)]).endswith("'7', ...")
    assert suggestion("zzz", []) == ""
