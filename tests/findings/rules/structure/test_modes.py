"""Trainings in evaluation mode."""

import pytest
import torch
from torch import nn

import taiyi_fx


def found_in(modes, *layers, steps=40):
    """The findings on evaluation mode, of a model whose mode is changed at some steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), *layers, nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(steps):
        watched.train(modes.get(step, watched.training))
        watched(torch.randn(5, 6)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return [one for one in watched.monitor.findings if one.kind == "evaluation_mode"]


@pytest.mark.parametrize("layer", [nn.Dropout(0.1), nn.BatchNorm1d(8)])
def test_a_mode_that_is_never_undone_is_a_warning(layer):
    (found,) = found_in({12: False}, layer)
    assert (found.severity, found.module, found.step) == ("warning", "", 12)
    assert type(layer).__name__ in found.text


def test_a_model_that_is_tuned_as_it_was_is_a_note():
    (found,) = found_in({0: False}, nn.Dropout(0.1))
    assert found.severity == "note"
    assert found.text.startswith("at all steps")


@pytest.mark.parametrize(
    ("modes", "layer"),
    [
        ({12: False}, nn.ReLU()),
        ({12: False}, nn.Dropout(0.0)),
        ({12: False, 14: True}, nn.Dropout(0.1)),
        ({38: False}, nn.Dropout(0.1)),
        ({}, nn.Dropout(0.1)),
    ],
)
def test_modes_that_change_nothing_or_are_undone_are_none(modes, layer):
    assert found_in(modes, layer) == []


def norm(training, steps=40, *, batches=0):
    """The findings of a model whose norm is frozen, after so many batches in training mode."""
    torch.manual_seed(0)
    own = nn.BatchNorm1d(8)
    for _ in range(batches):
        own(torch.randn(5, 8))
    model = nn.Sequential(nn.Linear(6, 8), own, nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(steps):
        own.train(training)
        watched(torch.randn(5, 6)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return [one for one in watched.monitor.findings if one.kind == "evaluation_mode"]


def test_a_norm_in_evaluation_mode_that_no_batch_has_passed_is_named():
    (found,) = norm(False)
    assert (found.module, found.severity) == ("1", "warning")
    assert "as they were made" in found.text
    assert "Load the trained model" in found.advice


def test_norms_that_are_fed_or_were_trained_before_are_none():
    assert norm(True) == []
    assert norm(False, batches=3) == []
