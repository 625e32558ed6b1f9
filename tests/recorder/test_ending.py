"""The end of a process: an error that nobody caught, SIGTERM, kill -9; what was there before."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest
from torch import nn

import taiyi_fx
from taiyi_fx.recorder import ending
from taiyi_fx.runs.recording import recordings_in

TRAINING = """
import os, signal, sys, warnings
import torch
from torch import nn
import taiyi_fx

warnings.simplefilter("ignore")
{before}
model = nn.Linear(3, 3)
recorder = taiyi_fx.Recorder(steps=4)
one = taiyi_fx.instrument(model, {{}}, run=sys.argv[1], recorder=recorder)
for step in range(7):
    one(torch.randn(2, 3)).sum().backward()
    one.monitor.track(step)
{end}
"""


def ended(tmp_path, end, before=""):
    """The exit status and standard output of a training that ends in a way, and its recordings."""
    text = TRAINING.format(end=textwrap.dedent(end), before=textwrap.dedent(before))
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path / "run")],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done, recordings_in(tmp_path / "run")


def test_an_error_that_nobody_caught_leaves_the_last_steps(tmp_path):
    done, (found,) = ended(tmp_path, "raise ValueError('of the training')")
    assert found.steps == (3, 4, 5, 6)
    assert found.reasons == ("ValueError: of the training",)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ValueError: of the training")


@pytest.mark.slow  # a process that ends
def test_sigterm_leaves_the_last_steps_and_ends_the_process_as_ever(tmp_path):
    done, (found,) = ended(tmp_path, "os.kill(os.getpid(), signal.SIGTERM)\nprint('went on')")
    assert (found.steps, found.reasons) == ((3, 4, 5, 6), ("SIGTERM",))
    assert done.returncode == -signal.SIGTERM
    assert "went on" not in done.stdout


@pytest.mark.slow  # a process that ends
def test_a_handler_that_was_there_is_called(tmp_path):
    before = "signal.signal(signal.SIGTERM, lambda *_: print('mine'))"
    done, (found,) = ended(
        tmp_path, "os.kill(os.getpid(), signal.SIGTERM)\nprint('went on')", before
    )
    assert found.reasons == ("SIGTERM",)
    assert done.stdout.split() == ["mine", "went", "on"]
    assert done.returncode == 0


@pytest.mark.slow  # a process that ends
def test_kill_9_leaves_the_dump_before_it(tmp_path):
    end = """
    recorder.dump()
    one(torch.randn(2, 3)).sum().backward()
    one.monitor.track(7)
    os.kill(os.getpid(), signal.SIGKILL)
    """
    done, (found,) = ended(tmp_path, end)
    assert done.returncode == -signal.SIGKILL
    assert found.steps == (3, 4, 5, 6)


@pytest.mark.slow  # a process that ends
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_worker_writes_nothing(tmp_path):
    end = """
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done, found = ended(tmp_path, end)
    assert found == []
    assert int(done.stdout) == -signal.SIGTERM


@pytest.mark.slow  # a process that ends
def test_a_training_that_ends_well_writes_nothing(tmp_path):
    done, found = ended(tmp_path, "")
    assert (done.returncode, found) == (0, [])


@pytest.fixture(autouse=True)
def no_hooks(monkeypatch):
    """The hooks of a process without recorders, whichever tests ran in this one before."""
    monkeypatch.setattr(ending, "_HOOKS", ending._Hooks())
    monkeypatch.setattr(ending, "_OPEN", weakref.WeakSet())
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)


def recording():
    return taiyi_fx.instrument(nn.Linear(2, 2), {}, recorder=taiyi_fx.Recorder())


def test_hooks_are_put_with_the_first_recorder_and_taken_back_with_the_last():
    before = sys.excepthook, signal.getsignal(signal.SIGTERM)
    first, second = recording(), recording()
    assert (sys.excepthook, signal.getsignal(signal.SIGTERM)) == (ending.on_error, ending.on_signal)
    first.monitor.close()
    assert sys.excepthook is ending.on_error
    second.monitor.close()
    assert (sys.excepthook, signal.getsignal(signal.SIGTERM)) == before


def test_a_hook_that_was_put_on_top_stays_and_ours_is_not_put_twice(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    called = []
    one = recording()
    ours = sys.excepthook

    def on_top(*error):
        called.append("on top")
        ours(*error)

    sys.excepthook = on_top
    one.monitor.close()
    assert sys.excepthook is on_top
    again = recording()
    assert sys.excepthook is on_top
    monkeypatch.setattr(ending._HOOKS, "of_errors", lambda *_: called.append("before"))
    sys.excepthook(ValueError, ValueError("x"), None)
    assert called == ["on top", "before"]
    again.monitor.close()
    ending._HOOKS.is_of_errors = False  # the test takes the hooks off by its end


def test_in_another_thread_the_signal_is_left_alone():
    before = signal.getsignal(signal.SIGTERM)
    handlers = []

    def run():
        one = recording()
        handlers.append(signal.getsignal(signal.SIGTERM))
        one.monitor.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [before]


def test_a_long_error_is_shortened():
    assert len(ending.named(ValueError("x" * 10_000))) < 600
    assert ending.named(ValueError("x")) == "ValueError: x"


def test_one_that_fails_at_the_end_does_not_keep_the_others_from_it(capsys):
    class One:
        def __init__(self, fails):
            self.fails, self.told = fails, []

        def ends(self, why):
            self.told.append(why)
            if self.fails:
                raise MemoryError("no more")

    ones = [One(True), One(False)]
    for one in ones:
        ending.tell_of_end(one)
    try:
        ending._tell("SIGTERM")
    finally:
        for one in ones:
            ending.tell_no_more(one)
    assert [one.told for one in ones] == [["SIGTERM"]] * 2
    assert "MemoryError: no more" in capsys.readouterr().err


def test_a_signal_that_comes_while_standard_error_is_written_still_ends_the_process(monkeypatch):
    class Failing:
        def ends(self, why):
            raise RuntimeError("reentrant call inside <stderr>")

    def reentrant():
        raise RuntimeError("reentrant call inside <stderr>")

    one, ended = Failing(), []
    ending.tell_of_end(one)
    monkeypatch.setattr(ending.traceback, "print_exc", reentrant)
    monkeypatch.setattr(ending._HOOKS, "of_signal", lambda *_: ended.append("ended"))
    ending.on_signal(signal.SIGTERM, None)
    ending.tell_no_more(one)
    assert ended == ["ended"]
