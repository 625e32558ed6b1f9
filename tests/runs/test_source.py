"""The parts that all formats of runs share: spans that are joined, flags of numbers."""

import numpy as np

from taiyi_fx.runs.source import FLAGS, Span, flags, merge_spans


def test_spans_of_one_series_are_joined_and_others_kept():
    spans = [(1, Span(3, 2, 9)), (2, Span(1, 0, 0)), (1, Span(4, 0, 5))]
    assert merge_spans(spans) == {1: Span(7, 0, 9), 2: Span(1, 0, 0)}


def test_each_number_that_is_not_finite_has_its_flag():
    values = np.array([1.0, np.nan, np.inf, -np.inf, -0.0, 1e308])
    assert [FLAGS[i] for i in flags(values)] == ["", "NaN", "+Inf", "-Inf", "", ""]
