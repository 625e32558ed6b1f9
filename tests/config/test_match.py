"""Which modules a key means, and what is said of one that means none."""

from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import taiyi_fx
from tests.config.given import matched, problems


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


def test_a_predicate_that_raises_is_a_problem_of_its_key():
    (problem,) = problems({lambda name, module: 1 / 0: ["InputMean"]})
    assert "the predicate raised ZeroDivisionError: division by zero" in problem


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
