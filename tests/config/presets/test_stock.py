"""The stock asks only for what there is, on few schedules, and is found by name."""

import pytest

import taiyi_fx
from taiyi_fx.config.entries import requests
from taiyi_fx.config.presets import PRESETS
from taiyi_fx.config.presets.stock import SCHEDULE, SELDOM
from taiyi_fx.schedule import parse_schedule


@pytest.mark.parametrize("name", PRESETS)
def test_every_entry_is_right(name):
    problems = []
    found = [r for part in PRESETS[name] for r in requests(part.of, part.entries, problems)]
    assert problems == []
    assert len(found) >= 8


@pytest.mark.parametrize("name", PRESETS)
def test_few_schedules_make_few_sets_of_due_readings(name):
    problems = []
    found = [r for part in PRESETS[name] for r in requests(part.of, part.entries, problems)]
    schedules = {request.schedule for _, request in found}
    often = parse_schedule(SCHEDULE)
    assert schedules <= {often, parse_schedule(SELDOM)}
    # What is read seldom is read where the rest is, too.
    assert all(often.is_due(step) for step in range(20_000) if parse_schedule(SELDOM).is_due(step))


def test_the_names_are_these():
    names = ["transformer", "convolutional", "recurrent", "experts", "adapters", "gan", "mlp"]
    assert [preset.name for preset in taiyi_fx.presets()] == names
    assert [taiyi_fx.preset(name).name for name in names] == names


def test_a_name_that_is_none_gets_the_nearest():
    with pytest.raises(LookupError, match=r"'transfomer'. Did you mean 'transformer'\?"):
        taiyi_fx.preset("transfomer")
