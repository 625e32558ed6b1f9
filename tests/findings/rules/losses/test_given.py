"""Losses that are given similarities of rows with themselves, or what a dropout left."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx


def found_in(model, loss_of, kind, *, logs_first=False):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(model)
    for step in range(3):
        loss = loss_of(watched(torch.randn(8, 6)))
        if logs_first:
            watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    return [found for found in watched.monitor.findings if found.kind == kind]


@pytest.mark.parametrize("is_masked", [False, True])
def test_rows_that_may_choose_themselves_are_told(is_masked):
    def loss_of(x):
        x = F.normalize(x, dim=1)
        logits = x @ x.T / 0.1
        if is_masked:
            logits = logits.masked_fill(torch.eye(8, dtype=torch.bool), -1e9)
        return F.cross_entropy(logits, torch.arange(8).roll(4))

    found = found_in(nn.Sequential(nn.Linear(6, 5)), loss_of, "own_pairs")
    assert [one.severity for one in found] == ["warning"] * (not is_masked)
    assert all("each of 8 rows chooses among" in one.text for one in found)


def error(x):
    return F.mse_loss(x.flatten(), torch.ones(8))


@pytest.mark.parametrize("ends", [[], [nn.Identity()], [nn.Flatten(0)]])
def test_a_dropout_behind_the_last_layer_is_told(ends):
    model = nn.Sequential(nn.Linear(6, 1), nn.Dropout(0.5), *ends)
    (found,) = found_in(model, error, "dropped_output")
    assert (found.severity, found.module) == ("warning", "1")
    assert "'1' drops 50% of what '0' returns" in found.text


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 1)),
        nn.Sequential(nn.Linear(6, 1), nn.Dropout(0.0)),
        nn.Sequential(nn.Linear(6, 1), nn.Dropout(0.5).eval()),
        nn.Sequential(nn.Linear(6, 1), nn.Dropout(0.5), nn.Sigmoid()),
        nn.Sequential(nn.Linear(6, 1)),
    ],
    ids=["before the last layer", "of nothing", "switched off", "before a sigmoid", "none"],
)
def test_others_are_usual(model):
    assert found_in(model, lambda x: error(2 * x), "dropped_output") == []


class Tied(nn.Module):
    """A dropout that is the last module, before a layer that is none."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.drop = nn.Linear(6, 1), nn.Linear(1, 6), nn.Dropout(0.5)

    def forward(self, x):
        h = self.drop(self.second(self.first(x)))
        return F.linear(h, self.first.weight) * 0.5


def test_a_dropout_before_a_layer_that_is_no_module_is_usual():
    head = nn.Linear(6, 1)
    body = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))
    assert found_in(body, lambda x: error(4 * head(x)), "dropped_output") == []
    assert found_in(Tied(), error, "dropped_output") == []


@pytest.mark.parametrize(("activation", "count"), [(nn.ReLU(), 1), (nn.Identity(), 0)])
def test_targets_that_the_last_activation_cannot_return_are_told(activation, count):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(nn.Sequential(nn.Linear(6, 5), activation))
    for step in range(3):
        loss = F.mse_loss(watched(torch.randn(8, 6)), torch.linspace(-1, 1, 40).view(8, 5))
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "unreachable_targets"]
    assert [one.module for one in found] == ["0"] * count
    assert all("a relu behind '0' returns, which is at least 0: " in one.text for one in found)


ALLOWED = (torch.arange(5) < 3).float()


@pytest.mark.parametrize(("hide", "count"), [(lambda x: x * ALLOWED, 1), (lambda x: x, 0)])
def test_a_mask_that_hides_nothing_is_told(hide, count):
    def loss_of(x):
        return hide(x).softmax(-1).square().mean()

    found = found_in(nn.Sequential(nn.Linear(6, 5)), loss_of, "masked_product", logs_first=True)
    assert [(one.severity, one.module) for one in found] == [("warning", "0")] * count


@pytest.mark.parametrize(("is_detached", "count"), [(False, 1), (True, 0)])
def test_a_target_that_gets_a_gradient_is_a_note(is_detached, count):
    def loss_of(x):
        value, after = x[:4], x[4:]
        return F.mse_loss(value, 1 + 0.9 * (after.detach() if is_detached else after))

    found = found_in(nn.Sequential(nn.Linear(6, 5)), loss_of, "moving_target")
    assert [(one.severity, one.module) for one in found] == [("note", "0")] * count


@pytest.mark.parametrize(("is_played", "count"), [(False, 1), (True, 0)])
def test_a_policy_that_differs_from_itself_before_its_first_step_is_told(is_played, count):
    old: list[torch.Tensor] = []

    def loss_of(logits):
        played, others = torch.arange(8) % 5, torch.arange(8).flip(0) % 5
        new = logits.log_softmax(1)[torch.arange(8), played if is_played else others]
        old[:] = old or [logits.detach().log_softmax(1)[torch.arange(8), played]]
        ratio = (new - old[0]).exp()
        return -torch.min(ratio * old[0], ratio.clamp(0.8, 1.2) * old[0]).mean()

    found = found_in(nn.Sequential(nn.Linear(6, 5)), loss_of, "odd_ratios", logs_first=True)
    assert [one.severity for one in found] == ["warning"] * count


@pytest.mark.parametrize("first", [0, 1])
def test_labels_that_are_the_blank_of_a_ctc_loss_are_told(first):
    def loss_of(x):
        scores = x.view(8, 1, 6).log_softmax(-1)
        return F.ctc_loss(scores, torch.arange(first, 3)[None], (8,), (3 - first,))

    found = []
    watched = taiyi_fx.instrument(nn.Sequential(nn.Linear(6, 6)))
    for step in range(3):
        loss = loss_of(watched(torch.randn(8, 6)))
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "blank_targets"]
    assert [one.severity for one in found] == ["warning"] * (first == 0)
    assert all(one.text.startswith("33% of the targets of 'loss'") for one in found)


class Rounded(nn.Module):
    def __init__(self, *, is_straight):
        super().__init__()
        self.is_straight, self.first, self.last = is_straight, nn.Linear(6, 6), nn.Linear(6, 1)

    def forward(self, x):
        x = self.first(x)
        return self.last(x + (x.round() - x).detach() if self.is_straight else x.round())


@pytest.mark.parametrize("is_straight", [False, True])
def test_a_rounding_that_no_gradient_passes_is_an_alert(is_straight):
    model = Rounded(is_straight=is_straight)
    found = found_in(model, lambda x: x.square().mean(), "flat_function", logs_first=True)
    assert [(one.severity, one.module) for one in found] == [("alert", "first")] * (not is_straight)
    assert all("goes through round, whose gradient is 0" in one.text for one in found)
