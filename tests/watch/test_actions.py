"""What a user may ask for, and how what is wrong is said."""

import pytest

from taiyi_fx.watch import WatchOptions
from taiyi_fx.watch.actions import actions


def test_one_action_or_several():
    made = actions([print, "stop", "skip", "https://example.org/x", "https://example.org/x"])
    assert made.calls == (print,)
    assert made.words == {"stop", "skip"}
    assert [hook.name for hook in made.webhooks] == ["https://example.org"]
    assert actions("stop").words == {"stop"}
    assert actions(print).calls == (print,)
    assert actions(None) == actions([])


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        ("stpo", ValueError, "'stpo' is no action. Did you mean 'stop'.*https://"),
        ("ftp://example.org", ValueError, "no action"),
        ("https://", ValueError, "no action"),
        ("file:///etc/passwd", ValueError, "no action"),
        ("http://[", ValueError, "no action"),
        (3, TypeError, "takes a function of a finding, 'stop'"),
        ([None], TypeError, "not None"),
    ],
)
def test_what_is_no_action_is_refused(asked, error, text):
    with pytest.raises(error, match=text):
        WatchOptions(asked)


def test_a_severity_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'alarm' is no severity. Did you mean 'alert'"):
        WatchOptions(severity="alarm")
