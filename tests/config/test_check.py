"""A configuration is checked as a whole: all its problems at once, one subscription for each value."""

import warnings

import pytest
from torch import nn

import taiyi_fx
from taiyi_fx.config.check import check, rescheduled
from taiyi_fx.config.presets.preset import Part
from taiyi_fx.schedule import every
from tests.config.given import Net, matched, problems


def test_two_keys_give_the_union_once_with_every_schedule():
    cfg = {
        "fc": [["InputSndNorm", "linear(10, 0)"], "WeightNorm"],
        nn.Linear: [["InputSndNorm", "linear(10, 5)"], ["InputSndNorm", "linear(10, 0)"]],
    }
    norm, weight = check(Net(), cfg).subscriptions
    assert [str(s) for s in norm.schedules] == ["linear(10, 0)", "linear(10, 5)"]
    assert weight.label == "WeightNorm"


def test_every_problem_is_reported_at_once_with_its_path():
    found = problems(
        {
            "Conv2D": ["InputSndNorm"],
            "fc": ["InputSndnorm", ["InputMean", "linear(1, x)"], ["InputMean", "linear(1, 0)", {"redce": 1}]],
            "layer9.*": ["WeightNorm"],
            nn.Linear: ["MeanTID"],
            3: ["WeightNorm"],
        }
    )  # fmt: skip
    assert (
        found[0] == "cfg['Conv2D']: no module is named or of class 'Conv2D'. Did you mean 'Conv2d'?"
    )
    assert (
        found[1]
        == "cfg['fc'][0]: no quantity is named 'InputSndnorm'. Did you mean 'InputSndNorm'?"
    )
    assert found[2].startswith("cfg['fc'][1]: 'linear(1, x)' is not a schedule; allowed are")
    assert found[3].startswith(
        "cfg['fc'][2]: InputMean has no option 'redce'; its options are: feature"
    )
    assert found[4] == "cfg['layer9.*']: no module's name fits the pattern 'layer9.*'"
    assert found[5] == "cfg[Linear][0]: MeanTID is not available: 'fc' (Linear) is not a BatchNorm"
    assert found[6].startswith("cfg[3]: a key is a module's name")
    assert len(found) == 7


def test_a_class_passes_over_modules_without_a_weight_and_a_name_does_not():
    assert len(matched(nn.BatchNorm2d, quantity="WeightNorm")) == 3
    (problem,) = problems({"layer1.0.free": ["WeightNorm"]})
    assert "'layer1.0.free' (BatchNorm2d) has no weight" in problem
    (problem,) = problems({nn.Sequential: ["WeightNorm"]})
    assert "'layer1' (Sequential) has no weight; 'layer2' (Sequential) has no weight" in problem


def test_batchnorms_without_running_statistics_are_named():
    (problem,) = problems({nn.BatchNorm2d: ["MeanTID"]})
    assert "'layer1.0.free' (BatchNorm2d) keeps no running statistics" in problem
    assert "bn'" not in problem


def test_a_parameter_that_is_not_there_is_named():
    (problem,) = problems({"fc": [["WeightNorm", "every(1)", {"param": "gain"}]]})
    assert "has no gain" in problem


def test_a_recurrent_layers_weights_are_offered():
    (problem,) = problems({"0": ["WeightNorm"]}, nn.Sequential(nn.LSTM(2, 2)))
    assert "has no weight (the option param takes one of weight_ih_l0, weight_hh_l0" in problem


def test_a_configuration_that_is_no_mapping_is_a_type_error():
    with pytest.raises(TypeError, match="maps modules to lists of quantities"):
        check(Net(), 3)


def test_quantities_without_modules_are_told_where_they_belong():
    (problem,) = problems(["InputMean"])
    assert problem == (
        "cfg[0]: a quantity is asked for of modules, such as {'Linear': ['InputMean']}"
    )


def test_a_preset_on_another_schedule_is_still_asked_of_what_can_have_it():
    found = check(Net(), rescheduled(Net(), "transformer", every(3)))
    assert {schedule for s in found.subscriptions for schedule in s.schedules} == {every(3)}
    before = check(Net(), "transformer").subscriptions
    assert [(s.module, s.label) for s in found.subscriptions] == [
        (s.module, s.label) for s in before
    ]


def test_what_a_part_of_a_preset_asks_for_is_left_out_where_the_model_lacks_what_it_needs():
    lens = Part("linear layers", lambda name, module: name == "0", ("LogitLens", "WeightNorm"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = taiyi_fx.instrument(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), [lens])
    assert [s.label for s in model.monitor.subscriptions] == ["WeightNorm"]
    with pytest.raises(taiyi_fx.ConfigError, match="LogitLens is not available: the model has no"):
        taiyi_fx.instrument(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), {"0": ["LogitLens"]})
    with pytest.raises(taiyi_fx.ConfigError, match="LogitLens is not available: the model has no"):
        taiyi_fx.instrument(nn.Sequential(nn.Linear(4, 4)), [lens, {"0": ["LogitLens"]}])


def test_nothing_is_traced_before_the_configuration_is_right():
    class Never(nn.Module):
        def forward(self, x):
            raise AssertionError("was traced")

    with pytest.raises(taiyi_fx.ConfigError):
        taiyi_fx.instrument(Never(), {"nothing": ["InputMean"]})


def test_option_values_are_kept_apart():
    cfg = {"fc": ["InputMean", ["InputMean", "linear(0, 0)", {"reduce": "feature"}]]}
    model = nn.Module()
    model.fc = nn.Linear(2, 2)
    model.forward = model.fc.forward
    labels = [s.label for s in check(model, cfg).subscriptions]
    assert labels == ["InputMean", "InputMean(reduce='feature')"]


def test_all_quantities_are_put_on_one_schedule_and_edits_stay():
    double = taiyi_fx.edit(value=lambda y: 2 * y)
    cfg = {"fc": ["WeightNorm", ["InputMean", "every(7)"], double]}
    (found,) = rescheduled(Net(), cfg, every(3))
    assert [request.schedule for request in found["fc"][:2]] == [every(3), every(3)]
    assert found["fc"][2] is double
    with pytest.raises(taiyi_fx.ConfigError, match="no quantity is named 'WeightNrom'"):
        rescheduled(Net(), {"fc": ["WeightNrom"]}, every(3))
