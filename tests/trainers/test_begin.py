"""What every trainer's callback shares."""

import importlib
import sys

import pytest
from torch import nn

import taiyi_fx
from taiyi_fx.trainers.begin import begin, monitor_of

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
