"""The reason for which a check could not be made."""

from taiyi_fx.step_checks.untried import Untried


def test_its_text_is_the_reason():
    assert str(Untried("there is no mask")) == "there is no mask"
