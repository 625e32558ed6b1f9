"""Errors with a line of context."""

import traceback

from taiyi_fx.passes.note import add_note


def test_a_note_is_shown_with_the_errors_own_message():
    error = KeyError("x")
    add_note(error, "in the pass mine")
    shown = "".join(traceback.format_exception(KeyError, error, None))
    assert "in the pass mine" in shown
    assert "x" in shown
