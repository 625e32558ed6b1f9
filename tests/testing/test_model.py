"""Recipes of whole models."""

from hypothesis import given, settings

import taiyi_fx
from taiyi_fx.testing import models


@settings(max_examples=15)
@given(models("graph"), models("python"))
def test_models_are_of_the_form_asked_for(graph, python):
    found = [taiyi_fx.instrument(r.make(), {"stem": ["InputMean"]}).capture for r in (graph, python)]  # fmt: skip
    assert [capture.is_whole for capture in found] == [True, False]
