"""Softmaxes of scores over an axis that is not the last."""

import pytest
import torch
from torch import nn

import taiyi_fx


class Block(nn.Module):
    def __init__(self, axis):
        super().__init__()
        self.q, self.k, self.v, self.axis = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), axis

    def forward(self, x):
        q, k, v = (y(x).unflatten(-1, (2, 4)).transpose(1, 2) for y in (self.q, self.k, self.v))
        weights = (q @ k.transpose(-1, -2) / 2).softmax(self.axis)
        return x + (weights @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(
    ("axes", "told"),
    [
        ([-1, -1, 1], [("2.attention()", "warning")]),
        ([-2, -2, -2], [("0.attention()", "note")]),
        ([-1, -1, 3], []),
    ],
)
def test_an_axis_that_siblings_do_not_take_is_a_warning(axes, told):
    watched = taiyi_fx.instrument(nn.Sequential(*map(Block, axes)), "transformer")
    for step in range(3):
        watched(torch.randn(4, 6, 8)).square().mean().backward()
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "softmax_axis"]
    assert [(one.module, one.severity) for one in found] == told
    assert all("scores of shape (4, 2, 6, 6)" in one.text for one in found)


@pytest.mark.parametrize(("axis", "told"), [(-2, [("0.q", "warning")]), (-1, [])])
def test_weights_that_do_not_add_up_are_a_warning_where_the_loss_shows_it(axis, told):
    watched = taiyi_fx.instrument(nn.Sequential(*map(Block, [axis] * 3)), "transformer")
    for step in range(3):
        loss = watched(torch.randn(4, 6, 8)).square().mean()
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "softmax_axis"]
    assert [(one.module, one.severity) for one in found] == told
    assert all("its product with values sums over another" in one.text for one in found)


class Mixture(nn.Module):
    """Experts whose outputs are added by the weights of a router."""

    def __init__(self, axis, experts):
        super().__init__()
        self.router, self.experts, self.axis = nn.Linear(6, experts), nn.Linear(6, experts), axis

    def forward(self, x):
        return (self.router(x).softmax(self.axis) * self.experts(x)).sum(-1)


@pytest.mark.parametrize(("axis", "experts", "says"), [(0, 4, "samples"), (-1, 1, "one element")])
def test_a_softmax_over_samples_or_one_element_is_a_warning(axis, experts, says):
    watched = taiyi_fx.instrument(Mixture(axis, experts), "mlp")
    for step in range(3):
        loss = nn.functional.mse_loss(watched(torch.randn(16, 6)), torch.randn(16))
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    (found,) = (one for one in watched.monitor.findings if one.kind == "softmax_axis")
    assert (found.module, found.severity, found.step) == ("router", "warning", 0)
    assert says in found.text


def test_a_softmax_over_an_axis_that_is_not_that_of_the_samples_is_no_finding():
    model = Mixture(0, 4)
    watched = taiyi_fx.instrument(model, "mlp")
    for step in range(3):
        choices = nn.functional.pad(watched.router(torch.randn(12, 6)), (0, 0, 0, 4)).softmax(0)
        loss = watched(torch.randn(7, 6)).square().mean() + choices.square().mean()
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "softmax_axis"]
    assert [one.text for one in found if "(16, 4)" in one.text] == []


@pytest.mark.parametrize(("axis", "is_told"), [(-1, True), (1, False)])
def test_a_softmax_along_a_row_of_maps_is_a_warning(axis, is_told):
    watched = taiyi_fx.instrument(nn.Sequential(nn.Conv2d(1, 3, 3, padding=1)), "convolutional")
    for step in range(3):
        loss = watched(torch.randn(8, 1, 6, 6)).softmax(axis)[:, 0].square().mean()
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "softmax_axis"]
    told = [(one.module, one.severity, one.value) for one in found]
    assert told == ([("0", "warning", 6.0)] if is_told else [])
    assert all("a row or a column of its maps" in one.text for one in found)


@pytest.mark.parametrize(("axis", "is_told"), [(0, True), (-1, False)])
def test_two_views_that_are_divided_by_their_size_along_the_samples_are_a_warning(axis, is_told):
    watched = taiyi_fx.instrument(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)), "mlp")
    for step in range(3):
        views = watched(torch.randn(32, 6)).chunk(2)
        a, b = (nn.functional.normalize(view, dim=axis) for view in views)
        loss = nn.functional.cross_entropy(a @ b.T, torch.arange(16))
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "normalised_samples"]
    assert [one.module for one in found] == (["2"] if is_told else [])


@pytest.mark.parametrize(("axis", "is_told"), [(0, True), (-1, False)])
def test_logits_that_are_divided_by_their_size_along_the_samples_are_a_warning(axis, is_told):
    class Head(nn.Linear):
        def forward(self, x):
            return 9 * nn.functional.normalize(super().forward(x), dim=axis)

    watched = taiyi_fx.instrument(nn.Sequential(nn.Linear(6, 8), Head(8, 4)), "mlp")
    for step in range(3):
        loss = nn.functional.cross_entropy(watched(torch.randn(16, 6)), torch.randint(4, (16,)))
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "normalised_samples"]
    assert [(one.module, one.severity) for one in found] == ([("1", "warning")] if is_told else [])
