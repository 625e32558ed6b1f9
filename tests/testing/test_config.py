"""Drawn configurations."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from taiyi_fx.config.check import check
from taiyi_fx.testing import configs, models


@settings(max_examples=40)
@given(st.data())
def test_configurations_are_valid(data):
    model = data.draw(models()).make()
    assert check(model, data.draw(configs(model))) is not None


@settings(max_examples=1)
@given(st.data())
def test_a_configuration_of_unknown_quantities_is_refused(data):
    with pytest.raises(LookupError, match="no quantity is named 'Nothing'"):
        data.draw(configs(nn.Linear(1, 1), quantities=["Nothing"]))
