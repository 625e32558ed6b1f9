"""A configuration may be a preset, its name, a mapping, several of these, or nothing."""

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from tests import hard_models
from tests.config.given import problems


def net():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))


def asked(model, *cfg, **options):
    monitor = taiyi_fx.instrument(model, *cfg, **options).monitor
    return {(s.module, s.label): [str(x) for x in s.schedules] for s in monitor.subscriptions}


def test_without_a_configuration_it_is_the_preset_that_fits():
    assert asked(net()) == asked(net(), "mlp") == asked(net(), taiyi_fx.preset("mlp"))
    found = asked(net())
    assert {"OutputRMS", "WeightNorm", "UpdateRatio.weight"} <= {q for m, q in found if m == "0"}
    assert ("1", "DeadNeuronRatio") in found


def test_parts_are_added_up_in_order():
    own = {"2": [["WeightNorm", "every(1)"], "InputStd"]}
    found = asked(net(), [*taiyi_fx.preset("mlp"), own])
    assert found == asked(net(), ["mlp", own])
    assert found["2", "InputStd"] == ["linear(0, 0)"]
    assert found["2", "WeightNorm"] == ["adaptive(100, 20)", "linear(1, 0)"]
    assert found["0", "WeightNorm"] == ["adaptive(100, 20)"]


def test_errors_name_the_part():
    found = problems([{"0": ["WeightNorm"]}, {"0": ["WeightNrom"]}, "gann"], net())
    assert found == [
        "cfg[1]['0'][0]: no quantity is named 'WeightNrom'. Did you mean 'WeightNorm'?",
        "cfg[2]: no preset is named 'gann'. Did you mean 'gan'?",
    ]


def test_none_in_a_list_is_the_preset_that_fits_and_a_word_for_it_is_told_so():
    own = {"2": ["InputStd"]}
    assert asked(net(), [None, own]) == asked(net(), ["mlp", own])
    (told,) = problems(["default", own], net())
    assert told.startswith("cfg[0]: no preset is named 'default'.")
    assert told.endswith(" None, in place of a name, is the preset that fits the model")


def test_an_optimizer_and_a_batch_in_the_place_of_a_configuration_are_told_where_to_go():
    model = net()
    with pytest.raises(TypeError, match=r"this is a SGD: pass it as optimizer=\.\.\."):
        taiyi_fx.instrument(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(
        TypeError, match=r"is a Tensor: a batch comes after .*verify\(model, None, x"
    ):
        taiyi_fx.verify(model, torch.randn(3, 4))


@pytest.mark.parametrize("cfg", [3, [3], [["mlp", 3.0]]])
def test_what_is_no_configuration_is_a_type_error(cfg):
    with pytest.raises(TypeError, match="or it is a preset, its name, or a list of these"):
        taiyi_fx.instrument(net(), cfg)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("cfg", [None, "mlp", ["mlp", {"0": ["InputStd"]}]])
def test_copies_ask_for_the_same(copied, cfg):
    watched = taiyi_fx.instrument(net(), cfg)
    assert copied(watched).monitor.subscriptions == watched.monitor.subscriptions


class Unused(nn.Module):
    """Frozen, unused, lazy, empty: what a preset meets in healthy models."""

    def __init__(self):
        super().__init__()
        self.frozen, self.head = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 4)
        self.unused, self.lazy, self.none = nn.Linear(2, 2), nn.LazyLinear(2), nn.ModuleList()

    def forward(self, x):
        return self.lazy(self.head(self.frozen(x)))


def test_what_nobody_named_and_is_not_there_is_passed_over_in_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watched = taiyi_fx.instrument(Unused())
        for step in range(3):
            watched(torch.randn(3, 4)).square().mean().backward()
            watched.monitor.track(step)
    assert "the module was not called" in watched.monitor.missing["unused", "OutputRMS"]
    assert "frozen" in watched.monitor.explain("frozen", "WeightGradNorm")
    assert not [found for found in watched.monitor.findings if found.severity != "note"]


def test_what_somebody_names_beside_a_preset_is_told_when_it_is_missing():
    watched = taiyi_fx.instrument(Unused(), ["mlp", {"unused": ["OutputRMS"]}])
    watched(torch.randn(3, 4)).square().mean().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="OutputRMS of 'unused'") as told:
        watched.monitor.track(0)
    assert len(told) == 1
    assert "WeightGradNorm" not in str(told[0].message)


@pytest.mark.parametrize("case", hard_models.cases(), ids=str)
def test_a_hard_model_is_watched_without_a_word(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error", taiyi_fx.MonitorWarning)
        _watch(case)


def _watch(case):
    torch.manual_seed(0)
    model = case.build().train()
    args, kwargs = case.inputs(3)
    watched = taiyi_fx.instrument(model)
    watched(*args, **kwargs)
    monitor = taiyi_fx.monitor_of(watched)
    monitor.track(0)
    monitor.close()
