"""Ranks meet once: one alone joins nobody; several join those with the same configuration."""

from types import SimpleNamespace

import pytest

from taiyi_fx import MonitorWarning
from taiyi_fx.step.ranks import UNEVEN, meet
from tests.step.given import Given

AUTO = meet.Groups("auto", None)


@pytest.fixture
def given():
    return Given({"0": ["InputMean"]})


def met(given, groups=AUTO, is_uneven=False):
    model = given.modules[""]
    return meet.meet(groups, given.subscriptions, given.table, model, is_uneven=is_uneven)


def test_a_process_alone_joins_nobody(given):
    assert met(given) is None
    assert met(given, meet.ALONE) is None


@pytest.mark.parametrize(("is_uneven", "ended"), [(False, None), (True, UNEVEN)])
def test_ranks_agree_on_the_configuration(given, monkeypatch, is_uneven, ended):
    asked = []

    def form(*args):
        asked.append(args)
        return SimpleNamespace(is_writer=True)

    monkeypatch.setattr(meet, "form", form)
    join = met(given, is_uneven=is_uneven)
    ((group, data, signature, why),) = asked
    assert (group, data, why) == ("auto", None, ended)
    assert "'0', 'InputMean'" in signature
    assert join.ranks.is_writer


def test_parts_of_other_names_are_not_joined(given, monkeypatch):
    asked = []
    monkeypatch.setattr(meet, "form", lambda *args: asked.append(args))
    for part in ("stage0", "stage1"):
        met(given, meet.Groups("auto", None, part))
    first, second = (signature for _, _, signature, _ in asked)
    assert first != second


@pytest.mark.parametrize(("is_writer", "data"), [(True, None), (True, "ranks"), (False, None)])
def test_tensor_parallel_ranks_without_a_data_group_are_warned_of_once(
    given, monkeypatch, is_writer, data
):
    monkeypatch.setattr(meet, "form", lambda *_: SimpleNamespace(is_writer=is_writer))
    monkeypatch.setattr(meet, "tensor_parallel", lambda model: "0.weight")
    if is_writer and data is None:
        with pytest.warns(MonitorWarning, match="'0.weight' is held in parts by ranks"):
            met(given, meet.Groups("auto", data))
    else:
        met(given, meet.Groups("auto", data))  # a warning would be an error


def test_a_model_whose_parameters_are_whole_is_not_warned_of(given, monkeypatch):
    monkeypatch.setattr(meet, "form", lambda *_: SimpleNamespace(is_writer=True))
    assert met(given) is not None
