"""Modules that are hidden, frozen or repeated as nobody may have meant."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.structure.as_built import shared_entries
from tests.findings.given import evidence, knowing


class Listed(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.first, self.head, self.hidden = nn.Linear(8, 8), nn.Linear(8, 1), hidden

    def forward(self, x):
        x = self.first(x)
        for layer in self.hidden.values() if isinstance(self.hidden, dict) else self.hidden:
            x = layer(x).relu()
        return self.head(x)


def found_in(hidden, *, is_given=False):
    model = Listed(hidden)
    parameters = [*model.parameters()]
    if is_given:
        parameters += [p for layer in hidden for p in layer.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    watched = taiyi_fx.instrument(model, {"Linear": ["OutputRMS"]}, optimizer=optimizer)
    for step in range(3):
        watched(torch.randn(12, 8)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
        watched.zero_grad()  # by which a hidden gradient stays, too
    return [one for one in watched.monitor.findings if one.kind == "hidden_layers"]


@pytest.mark.parametrize(
    "hidden",
    [
        [nn.Linear(8, 8), nn.Linear(8, 8)],
        (nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8))),
        {"a": nn.Linear(8, 8), "b": nn.Linear(8, 8)},
    ],
    ids=["list", "tuple", "dict"],
)
def test_layers_that_torch_does_not_see_are_a_warning(hidden):
    (found,) = found_in(hidden)
    assert (found.severity, found.module) == ("warning", "")
    assert found.text.startswith("the list 'hidden' keeps 2 modules that torch does not see")


def test_what_is_seen_frozen_or_trained_all_the_same_is_none():
    assert found_in(nn.ModuleList([nn.Linear(8, 8)])) == []
    assert found_in([nn.Linear(8, 8).requires_grad_(False)]) == []
    assert found_in([nn.Linear(8, 8)], is_given=True) == []
    assert found_in([nn.ReLU()]) == []
    assert found_in([]) == []


@pytest.mark.filterwarnings("ignore:no value for")
def test_a_module_that_is_replaced_in_training_is_not_hidden():
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, {"Linear": ["OutputRMS"]}, optimizer=optimizer)
    for step in range(6):
        if step == 2:
            model[1][0] = nn.Linear(8, 8)
        watched(torch.randn(12, 8)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
    assert [one for one in watched.monitor.findings if one.kind == "hidden_layers"] == []


def test_a_list_of_one_is_a_note():
    (found,) = found_in([nn.Linear(8, 8)])
    assert (found.severity, found.module) == ("note", "")
    assert "keeps 1 module that" in found.text


class Answers:
    """What answers any question with an error of its own."""

    def __getattr__(self, name):
        raise RuntimeError(name)


def test_a_list_of_anything_is_none():
    class Holding(Listed):
        def __init__(self):
            super().__init__([])
            self.others = [Answers()]
            self.numbers = {i: i for i in range(9)}

    model = Holding()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, {"Linear": ["OutputRMS"]}, optimizer=optimizer)
    watched(torch.randn(12, 8)).square().mean().backward()
    watched.monitor.track(0)
    assert [one for one in watched.monitor.findings if one.kind == "hidden_layers"] == []


class Adapted(nn.Module):
    """A linear layer with a product of two small matrices beside it."""

    def __init__(self, names=("lora_a", "lora_b"), rank=2):
        super().__init__()
        self.base, self.names = nn.Linear(6, 6), names
        self.register_parameter(names[0], nn.Parameter(torch.randn(rank, 6)))
        self.register_parameter(names[1], nn.Parameter(torch.zeros(6, rank)))

    def forward(self, x):
        first, second = (getattr(self, name) for name in self.names)
        return self.base(x) + x @ first.T @ second.T


def frozen_in(trained, **options):
    """The findings on adapters, of a model of which the parameters with these names are trained."""
    torch.manual_seed(0)
    model = nn.Sequential(Adapted(**options), nn.ReLU(), Adapted(**options), nn.Linear(6, 2))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(part in name for part in trained))
    wanted = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(wanted, lr=0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(12):
        watched(torch.randn(5, 6)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return [one for one in watched.monitor.findings if one.kind == "frozen_adapters"]


def test_adapters_that_were_frozen_with_the_model_are_named():
    (found,) = frozen_in(["3."])
    assert (found.severity, found.module) == ("warning", "0")
    assert "'0' and 1 more" in found.text


@pytest.mark.parametrize(("rank", "is_told"), [(2, True), (6, False)])
def test_adapters_are_known_by_their_shapes_too(rank, is_told):
    assert bool(frozen_in(["3."], names=("A", "B"), rank=rank)) == is_told
    assert frozen_in(["A", "B"], names=("A", "B"), rank=rank) == []


@pytest.mark.parametrize("trained", [["lora", "3."], ["0.lora"], ["base", "3.", "lora"]])
def test_models_with_an_adapter_that_is_trained_have_none(trained):
    assert frozen_in(trained) == []


@pytest.mark.parametrize(
    ("name", "severity"), [("h.blocks", "note"), ("moe.experts", "warning"), ("heads", "warning")]
)
def test_each_list_is_told_with_the_number_of_its_entries(name, severity):
    known = knowing(evidence({("h", "OutputRMS"): 1.0}), repeated={name: 8})
    (found,) = shared_entries(known)
    assert (found.kind, found.module, found.severity) == ("shared_entries", name, severity)
    assert found.text == f"8 entries of {name!r} are one module, with the same weights"


def test_a_model_of_one_block_several_times_is_told_after_what_is_urgent():
    model = nn.Sequential(*[nn.Linear(4, 4)] * 3, nn.ReLU(), nn.Linear(4, 2))
    watched = taiyi_fx.instrument(model)
    for step in range(4):
        watched(torch.randn(8, 4)).square().mean().backward()
        watched.monitor.track(step)
        model.zero_grad()
    found = watched.monitor.findings[-1]
    assert (found.kind, found.value) == ("shared_entries", 3.0)
    assert found.text.startswith("3 entries of the model are one module")


class Coupling(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.net = nn.Linear(4, 4)

    def forward(self, x):
        return x * self.mask + (1 - self.mask) * (x + self.net(x * self.mask))


HALF = torch.tensor([0.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("masks", "is_told"),
    [
        ([HALF] * 4, True),
        ([HALF.bool().double()[None]] * 3, True),
        ([HALF, 1 - HALF] * 2, False),
        ([HALF] * 2, False),
        ([torch.ones(4)] * 4, False),
        ([torch.eye(4)] * 4, False),
    ],
    ids=["alike", "of a batch", "in turns", "two", "all", "of pairs"],
)
def test_couplings_whose_masks_are_all_alike_are_told(masks, is_told):
    model = nn.Sequential(*map(Coupling, (mask.float() for mask in masks)))
    watched = taiyi_fx.instrument(model, {"*": ["OutputRMS"]})
    watched(torch.randn(4, 4)).sum().backward()
    watched.monitor.track()
    found = [one for one in watched.monitor.findings if one.kind == "same_mask"]
    assert [one.module for one in found] == ["0"] * is_told
    assert all(f"all {len(masks)} modules of class Coupling" in one.text for one in found)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            True,
            "an attribute requires_grad = True of its own, which does nothing: its parameters "
            "are frozen",
        ),
        (
            False,
            "an attribute requires_grad = False of its own, which does nothing: its parameters "
            "are trained",
        ),
    ],
)
def test_an_attribute_that_is_to_freeze_or_to_train_and_does_not_is_a_warning(asked, told):
    model = nn.Sequential(nn.Linear(8, 8).requires_grad_(not asked), nn.Linear(8, 1))
    model[0].requires_grad = asked
    watched = taiyi_fx.instrument(model, {"Linear": ["OutputRMS"]})
    for step in range(3):
        watched(torch.randn(12, 8)).square().mean().backward()
        watched.monitor.track(step)
    (found,) = (one for one in watched.monitor.findings if one.kind == "idle_switch")
    assert (found.severity, found.module) == ("warning", "0")
    assert found.text == f"'0' has {told}"
