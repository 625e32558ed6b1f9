"""What every trainer's callback shares."""

import importlib
import sys

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.trainers.begin import begin, monitor_of, writers_of

CFG = {nn.Linear: ["InputSndNorm"]}
FRAMEWORKS = {
    "lightning": "lightning",
    "huggingface": "transformers",
    "accelerate": "accelerate",
    "ignite": "ignite",
}


@pytest.mark.parametrize("file", FRAMEWORKS)
def test_a_framework_that_is_missing_is_said_with_what_to_install(file, monkeypatch):
    name = f"taiyi_fx.trainers.{file}"
    for loaded in [m for m in sys.modules if m.split(".")[0] == FRAMEWORKS[file]]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, FRAMEWORKS[file], None)
    monkeypatch.delitem(sys.modules, name, raising=False)
    extra = rf"pip install 'taiyi-fx\[{FRAMEWORKS[file]}\]'"
    with pytest.raises(ImportError, match=extra):
        importlib.import_module(name)


def test_the_instrumented_part_is_found_in_wrappers():
    part = taiyi_fx.instrument(nn.Linear(2, 2), CFG)
    for model in (part, nn.Sequential(nn.ReLU(), part), nn.DataParallel(part)):
        assert monitor_of(model) is part.monitor


def test_nothing_instrumented_and_too_much_are_said():
    with pytest.raises(LookupError, match=r"no part of the Linear .*instrument\(model, cfg\)"):
        monitor_of(nn.Linear(2, 2))
    parts = nn.ModuleList(taiyi_fx.instrument(nn.Linear(2, 2), CFG) for _ in range(2))
    with pytest.raises(ValueError, match=r"several parts are instrumented, '0', '1'"):
        monitor_of(parts)


def test_training_begins_at_its_step():
    model = taiyi_fx.instrument(nn.Linear(2, 2), CFG)
    assert begin(model, 5, []).next_step == 5


def test_a_step_to_skip_is_refused_as_a_trainer_leaves_out_none():
    part = taiyi_fx.instrument(nn.Linear(2, 2), CFG, on_finding="skip")
    with pytest.raises(ValueError, match='a trainer can be stopped: on_finding="stop"'):
        begin(part, 0, [])


def test_a_run_is_replaced_where_training_begins_at_step_0_and_goes_on_elsewhere(tmp_path):
    def steps(first):
        part = taiyi_fx.instrument(nn.Linear(2, 2), CFG)
        monitor = begin(part, first, writers_of(tmp_path, (), overwrite=True))
        for step in (first, first + 1):
            part(torch.ones(1, 2)).sum().backward()
            monitor.track(step)
        monitor.close()
        with taiyi_fx.open_run(tmp_path) as run:
            return run.series("", "InputSndNorm").steps.tolist()

    assert steps(0) == [0, 1]
    assert steps(2) == [0, 1, 2, 3]
    assert steps(0) == [0, 1]
    with pytest.raises(ValueError, match="give its folder as run="):
        writers_of(None, (), overwrite=True)
