from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import taiyi_fx
from taiyi_fx.config.check import check


class Blok(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
        self.free = nn.BatchNorm2d(2, affine=False, track_running_stats=False)

    def forward(self, x):
        return self.free(self.bn(self.conv1(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1, self.layer2 = nn.Sequential(Blok(), Blok()), nn.Sequential(Blok())
        self.fc = nn.Linear(2, 2)
        self.alias = self.fc


def matched(key, model=None, quantity="InputSndNorm"):
    config = check(model or Net(), {key: [quantity]})
    return [subscription.module for subscription in config.subscriptions]


def problems(cfg, model=None):
    with pytest.raises(taiyi_fx.ConfigError) as error:
        check(model or Net(), cfg)
    return error.value.problems


def test_keys_are_names_class_names_classes_patterns_and_predicates():
    convs = ["layer1.0.conv1", "layer1.1.conv1", "layer2.0.conv1"]
    assert matched("layer1.1.conv1") == ["layer1.1.conv1"]
    assert matched("Conv2d") == matched(nn.Conv2d) == matched("layer*.conv1") == convs
    assert matched(nn.modules.conv._ConvNd) == convs
    assert matched("layer[1].?.conv1") == convs[:2]
    assert matched(lambda name, module: name == "fc") == ["fc"]


def test_a_class_name_is_exact_and_a_class_takes_subclasses():
    class Mine(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(1, 1), Mine(1, 1))
    assert matched("Linear", model) == ["0"]
    assert matched(nn.Linear, model) == ["0", "1"]


def test_a_parametrized_module_keeps_the_name_of_its_class():
    assert matched("Linear", nn.Sequential(weight_norm(nn.Linear(2, 2)))) == ["0"]


def test_an_alias_is_the_module_under_its_first_name():
    assert matched("alias") == ["fc"]


def test_two_keys_give_the_union_once_with_every_schedule():
    cfg = {
        "fc": [["InputSndNorm", "linear(10, 0)"], "WeightNorm"],
        nn.Linear: [["InputSndNorm", "linear(10, 5)"], ["InputSndNorm", "linear(10, 0)"]],
    }
    norm, weight = check(Net(), cfg).subscriptions
    assert [str(s) for s in norm.schedules] == ["linear(10, 0)", "linear(10, 5)"]
    assert weight.label == "WeightNorm"


def test_entries_may_be_quantities_and_requests():
    mine = taiyi_fx.Quantity("mine", lambda n: n, {"n": taiyi_fx.input.norm})
    cfg = {"fc": [mine, mine.at(taiyi_fx.every(3), tensor=0), [mine, "every(2)", {"tensor": 1}]]}
    labels = [s.label for s in check(Net(), cfg).subscriptions]
    assert labels == ["mine", "mine(tensor=0)", "mine(tensor=1)"]


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
    assert found[5] == "cfg[Linear][0]: MeanTID cannot be had: 'fc' (Linear) is not a BatchNorm"
    assert found[6].startswith("cfg[3]: a key is a module's name")
    assert len(found) == 7


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [("module.fc", "fc"), ("FC", "fc"), ("_orig_mod.layer2", "layer2"), ("Blocks", "Blok"),
     ("layer1.0.conv", "layer1.0.conv1"), ("batchnorm2d", "BatchNorm2d")],
)  # fmt: skip
def test_a_key_that_matches_nothing_gets_a_suggestion(key, suggestion):
    (problem,) = problems({key: ["InputSndNorm"]})
    assert f"Did you mean {suggestion!r}?" in problem


def test_a_key_like_nothing_lists_what_there_is():
    (problem,) = problems({"zzz": ["InputSndNorm"]})
    assert "Known are 'BatchNorm2d', 'Blok', 'Conv2d'" in problem


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (7, "7 is no entry"),
        ([], "[] is no entry"),
        (["InputMean", "linear(1,0)", {}, 1], "is no entry"),
        (["InputMean", 5], "5 is not a schedule"),
        (["InputMean", "linear(1,0)", "x"], "options are a dictionary"),
        ([3], "a quantity's name or a quantity belongs first"),
        ("linear(5, 0)", "It is a schedule"),
        (
            ["InputMean", "linear(1,0)", {"reduce": "rows"}],
            "must be 'all' or 'feature', not 'rows'",
        ),
        (["InputCovCondition", "every(1)", {"centered": 1}], "must be True or False, not 1"),
        (
            ["InputCovCondition", "every(1)", {"p": "x"}],
            "must be a number of at least 0 and below 1 or None, not 'x'",
        ),
        (
            ["InputCovCondition", "every(1)", {"p": 1.5}],
            "must be a number of at least 0 and below 1 or None, not 1.5",
        ),
        (["ForwardInput", "every(1)", {"max_elements": 0}], "must be a positive whole number"),
        (["WeightNorm", "every(1)", {"param": 1}], "must be a text, not 1"),
    ],
)
def test_a_malformed_entry_says_what_is_wrong(entry, text):
    (problem,) = problems({"fc": [entry]})
    assert text in problem


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


def test_a_predicate_that_raises_is_a_problem_of_its_key():
    (problem,) = problems({lambda name, module: 1 / 0: ["InputMean"]})
    assert "the predicate raised ZeroDivisionError: division by zero" in problem


def test_a_configuration_that_is_no_mapping_is_a_type_error():
    with pytest.raises(TypeError, match="maps modules to lists of quantities"):
        check(Net(), ["InputMean"])


def test_a_single_quantity_needs_no_list():
    assert matched("fc") == [s.module for s in check(Net(), {"fc": "InputSndNorm"}).subscriptions]


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
    assert torch is not None


@pytest.mark.parametrize(
    ("path", "meant"),
    [("torch.nn.Linear", nn.Linear), ("torch.nn.Module", nn.Module), ("torch.relu", torch.relu)],
)
def test_a_path_to_a_class_or_function_is_that(path, meant):
    class Net(nn.Sequential):
        def forward(self, x):
            return torch.relu(super().forward(x))

    model = Net(nn.Linear(2, 3), nn.Linear(3, 2))
    by_path, by_itself = (
        taiyi_fx.instrument(model, {key: ["OutputRMS"]}).monitor.subscriptions
        for key in (path, meant)
    )
    assert by_path == by_itself


def test_a_module_named_like_a_path_comes_first():
    model = nn.Sequential(OrderedDict(torch=nn.Sequential(OrderedDict(relu=nn.Linear(2, 2)))))
    (found,) = taiyi_fx.instrument(model, {"torch.relu": ["OutputRMS"]}).monitor.subscriptions
    assert found.module == "torch.relu"


@pytest.mark.parametrize("path", ["torch.nn.Linea", "torch.nn", "torch.", "operator", "math.pi"])
def test_a_path_to_nothing_is_told_as_it_was_written(path):
    with pytest.raises(taiyi_fx.ConfigError) as error:
        taiyi_fx.instrument(nn.Linear(2, 2), {path: ["OutputRMS"]})
    assert f"cfg[{path!r}]: no module is named or of class {path!r}." in str(error.value)


@pytest.mark.parametrize("path", ["torch.os.popen", "torch.importlib.import_module"])
def test_no_text_is_called_as_a_predicate(path):
    with pytest.raises(taiyi_fx.ConfigError, match="no module is named or of class") as error:
        taiyi_fx.instrument(nn.Linear(2, 2), {path: ["OutputNorm"]})
    assert "predicate" not in str(error.value)
