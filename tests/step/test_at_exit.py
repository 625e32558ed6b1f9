"""At the end of the process all that is open is closed, whatever becomes of the others."""

import gc

from taiyi_fx.step.at_exit import close_all, close_at_exit, discard, is_process_ending


class Door:
    def __init__(self, fails=False):
        self.fails, self.closed, self.is_last = fails, 0, False

    def close(self):
        self.closed += 1
        self.is_last = is_process_ending()
        if self.fails:
            raise ZeroDivisionError("in close")


def test_one_that_fails_to_close_keeps_no_other_from_closing(capsys):
    failing, good = Door(fails=True), Door()
    close_at_exit(failing)
    close_at_exit(good)
    close_all()
    discard(failing)
    discard(good)
    assert "ZeroDivisionError: in close" in capsys.readouterr().err
    assert failing.closed == good.closed == 1
    assert failing.is_last
    assert good.is_last
    assert not is_process_ending()


def test_what_was_closed_or_is_gone_is_not_closed_again():
    closed, lost = Door(), Door()
    close_at_exit(closed)
    close_at_exit(lost)
    discard(closed)
    notes = lost.__dict__
    del lost
    gc.collect()
    close_all()
    assert closed.closed == notes["closed"] == 0
