"""Values of options against annotations, and annotations in words."""

import inspect
import math
from typing import Annotated, Any, Literal

import pytest

from taiyi_fx.quantities.options import Range, check_type, described


def option(annotation):
    return inspect.Parameter("k", inspect.Parameter.KEYWORD_ONLY, annotation=annotation)


@pytest.mark.parametrize(("annotation", "good", "bad", "words"), [
    (int, [0, -3], [True, 1.0, "1"], "a whole number"),
    (float, [1, 0.5, math.inf], [False, "x"], "a number"),
    (bool, [True], [1, None], "True or False"),
    (str, ["x"], [1], "a text"),
    (int | None, [None, 2], [2.5], "a whole number or None"),
    (Literal["a", 2], ["a", 2], ["b"], "'a' or 2"),
    (tuple[float, ...], [(), (0.5, 1)], [[0.5], ("x",), 0.5], "several of a number"),
    (Annotated[float, Range(0, 1)], [0, 0.99], [1, -0.1, "x"], "a number of at least 0 and below 1"),
])  # fmt: skip
def test_a_value_fits_its_annotation_or_is_refused_in_words(annotation, good, bad, words):
    assert described(annotation) == words
    for value in good:
        check_type("Q", option(annotation), value)
    for value in bad:
        with pytest.raises(ValueError) as error:
            check_type("Q", option(annotation), value)
        assert str(error.value) == f"Q: option 'k' must be {words}, not {value!r}"


@pytest.mark.parametrize("annotation", [Any, inspect.Parameter.empty])
def test_an_option_without_a_type_takes_anything(annotation):
    check_type("Q", option(annotation), object())
