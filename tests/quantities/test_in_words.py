"""Quantities in a few words."""

import pytest

import taiyi_fx
from taiyi_fx.quantities.in_words import _WORDS, in_words

STOCK = [q.name for q in taiyi_fx.quantities() if q.declared_in.startswith("taiyi_fx.")]


@pytest.mark.parametrize("name", STOCK)
def test_every_quantity_has_a_few_words(name):
    assert 0 < len(in_words(name)) <= 55
    assert in_words(f"{name}.part") == in_words(name)


def test_words_name_the_measure_and_the_place():
    assert in_words("OutputGradRMS") == "usual size of the output's gradient"
    assert in_words("NonFinite.NaN") == "NaN and Inf in the output"
    assert in_words("UpdateRatio.bias") == "step beside the parameter's size"


def test_a_quantity_of_one_s_own_has_none():
    assert in_words("MyOwn") == in_words("loss") == ""


@pytest.mark.parametrize(
    "name", ["Alpha", "Condition", "Norm", "RMS", "Mean", "Std", "Input", "Output", "Image"]
)
@pytest.mark.parametrize("place", ["", "Attention"])
def test_a_word_that_names_of_ours_end_in_is_none_of_ours(name, place):
    assert in_words(f"{place}{name}") == ""
    assert in_words(f"{place}{name}.part") == ""


def test_no_other_names_than_those_of_quantities_have_words():
    assert {*_WORDS} == {*STOCK}
