"""Axes that are mistaken on the way to a loss, by operands that broadcast and by views."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx


@pytest.mark.parametrize(
    ("shape", "target", "found"),
    [
        ((16, 1), (16,), [("head", "(16, 1)")]),
        ((16,), (16, 1), [("head", "(16,)")]),
        ((16, 1), (16, 1), []),
        ((16,), (16,), []),
    ],
)
def test_a_loss_of_all_pairs_of_samples_is_an_alert(shape, target, found):
    model = nn.Sequential()
    model.add_module("body", nn.Linear(6, 8))
    model.add_module("act", nn.Tanh())
    model.add_module("head", nn.Linear(8, 1))
    watched = taiyi_fx.instrument(model, "mlp")
    for step in range(3):
        made = watched(torch.randn(16, 6))
        made = made.squeeze(1) if shape == (16,) else made
        loss = ((made - torch.randn(target)) ** 2).mean()
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    every = [one for one in watched.monitor.findings if one.kind == "broadcast"]
    assert [(one.module, one.severity) for one in every] == [(name, "alert") for name, _ in found]
    assert all(
        f"of shape {given}" in one.text for one, (_, given) in zip(every, found, strict=True)
    )


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_mean_whose_axis_is_not_kept_is_a_warning_with_the_module_before_it(is_kept):
    class Centred(nn.Linear):
        def forward(self, x):
            x = super().forward(x)
            return x - x.mean(1, keepdim=is_kept)

    torch.manual_seed(0)
    watched = taiyi_fx.instrument(nn.Sequential(Centred(6, 16), nn.Linear(16, 4)), "mlp")
    for step in range(3):
        loss = nn.functional.cross_entropy(watched(torch.randn(16, 6)), torch.randint(4, (16,)))
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "broadcast"]
    assert [one.module for one in found] == ([] if is_kept else ["0"])
    assert all("keepdim=True" in one.advice for one in found)


class Mixed(nn.Module):
    def __init__(self, *, is_torn):
        super().__init__()
        self.is_torn, self.body, self.head = is_torn, nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x):
        x = self.body(x)
        return self.head(x.view(8, len(x)).t() if self.is_torn else x)


def found_in(model):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(model, {"Linear": ["OutputRMS"]})
    for step in range(3):
        loss = F.cross_entropy(watched(torch.randn(12, 6)), torch.randint(5, (12,)))
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    return [found for found in watched.monitor.findings if found.kind == "torn_view"]


def test_a_view_in_the_place_of_a_transpose_is_named_with_what_comes_before_it():
    (found,) = found_in(Mixed(is_torn=True))
    assert (found.severity, found.module) == ("warning", "body")
    assert "of shape (12, 8), is viewed as (8, 12)" in found.text


def test_a_model_without_one_has_none():
    assert found_in(Mixed(is_torn=False)) == []
