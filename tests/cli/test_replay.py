"""`taiyi-fx replay`: a bad step from its file."""

import json
import pdb

import pytest

from tests.recorder.replay.given import Kept, Net, line_of
from tests.recorder.replay.test_bad_step import saved
from tests.recorder.replay.test_function_rerun import AT, Training, step_of
from tests.recorder.replay.test_replayer import logs

MODEL = "tests.cli.test_replay:make"


def make(breaks=True):
    return Net(logs if breaks else None)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    made = tmp_path_factory.mktemp("run") / "bad-step.safetensors"
    saved(Kept(Net(logs)), made)
    return made


def test_the_operation_is_said_and_the_exit_code_tells(cli, file):
    code, out, _ = cli("replay", file, MODEL)
    assert code == 1
    assert out.startswith("step 3, forward: log of the model itself\n  at ")
    assert f"test_replayer.py:{line_of(logs, 'torch.log')} in logs" in out
    assert "the step ran as it had before, bit for bit" in out
    assert "where it happened" not in out


def test_json_has_all_of_it(cli, file):
    code, out, _ = cli("replay", file, MODEL, "--json")
    found = json.loads(out)
    assert (code, found["operation"], found["phase"], found["is_exact"]) == (
        1,
        "log",
        "forward",
        True,
    )
    assert found["outputs"][0]["nan"] == 32
    assert found["outputs"][0]["mean"] is None


def test_a_model_that_was_mended_goes_well_and_says_what_it_was(cli, file):
    code, out, _ = cli("replay", file, MODEL, "--call-args", "breaks=False")
    assert code == 0
    assert "no operation went wrong" in out
    assert "the step did not run as it had before: an output has other bits than it had then" in out
    assert "where it happened, it was\nstep 3, forward: log" in out


def test_the_debugger_stops_at_the_line(cli, file, monkeypatch):
    stops = []

    def interaction(self, frame, traceback):
        stops.append((frame.f_code.co_name, frame.f_lineno))
        self.set_continue()

    def cmdloop(self, frame, *_):
        interaction(self, frame, None)

    monkeypatch.setattr(pdb.Pdb, "interaction", cmdloop)
    code, _, _ = cli("replay", file, MODEL, "--pdb")
    assert code == 1
    assert ("logs", line_of(logs, "torch.log")) in stops


def test_the_users_function_runs_the_loss_again(cli, tmp_path):
    given = Training(run=tmp_path)
    step = given.recorder.step(step_of)
    given.run(lambda x, now: step(given.one, x, now), AT + 1)
    bad, plain = tmp_path / "bad-step.safetensors", "tests.recorder.replay.given:Net"
    code, out, _ = cli(
        "replay", bad, plain, "--step", "tests.recorder.replay.test_function_rerun:step_of"
    )
    assert code == 1
    assert out.startswith(f"step {AT}, forward: sqrt, outside of the model")
    assert "the step ran as it had before, bit for bit" in out
    code, out, _ = cli("replay", bad, plain)
    assert out.startswith(f"step {AT}, backward: the gradient that reached output 0 of the model")
    for step, text in (
        ("tests.recorder.replay.test_function_rerun:fails", "fails raised KeyError: 'lost'"),
        ("tests.recorder.replay.test_function_rerun:AT", "is a int, which is no function"),
        ("step", "--step is module:function, such as train:step, not 'step'"),
    ):
        code, _, err = cli("replay", bad, plain, "--step", step)
        assert code == 2
        assert text in err


def test_what_cannot_be_run_is_refused(cli, file, tmp_path):
    code, _, err = cli("replay", tmp_path / "none", MODEL)
    assert code == 2
    assert "cannot be read" in err
    (tmp_path / "other").write_text("x" * 100)
    code, _, err = cli("replay", tmp_path / "other", MODEL)
    assert code == 2
    assert "no file of safetensors" in err
    code, _, err = cli(
        "replay", file, "torch.nn:Linear", "--call-args", "in_features=2", "out_features=3"
    )
    assert code == 2
    assert "the model is not the one of the step" in err
