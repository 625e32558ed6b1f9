"""The public names of the kit."""

import inspect

import pytest

from taiyi_fx import testing


@pytest.mark.parametrize("name", testing.__all__)
def test_every_public_name_is_documented(name):
    assert inspect.getdoc(getattr(testing, name))
