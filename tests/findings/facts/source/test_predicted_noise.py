"""Noise that a loss compares with, and that nothing else is made of."""

import pytest

from taiyi_fx.findings.facts.source.predicted_noise import foreign_noise
from tests.findings.facts.source.reading import found_in

CODE = """
def step(model, schedule, x0, t):
    {noise} = torch.randn_like(x0)
    xt = {noised}
    return {loss}
"""
MSE = "F.mse_loss(model(xt, t), noise)"


def found(noised="schedule.q_sample(x0, t)", loss=MSE, noise="noise"):
    code = CODE.format(noised=noised, loss=loss, noise=noise)
    return [text for _, text in found_in(code, foreign_noise)]


@pytest.mark.parametrize(
    "loss",
    [
        MSE,
        "(model(xt, t) - noise).square().mean()",
        "((noise - model(xt, t)) ** 2).mean()",
        "torch.abs(model(xt, t) - noise).mean()",
        "self.criterion(target=noise, input=model(xt, t), reduction='sum')",
        "torch.norm(model(xt, t) - noise)",
    ],
)
def test_noise_that_no_sample_is_made_of_is_found(loss):
    assert found(loss=loss) == ["torch.randn_like(x0)"]


@pytest.mark.parametrize(
    "changed",
    [
        {"noised": "schedule.q_sample(x0, t, noise)"},
        {"noised": "x0 - noise"},
        {"noised": "schedule.q_sample(x0, t, lambda: noise)"},
        {"loss": "F.mse_loss(model(noise, t), x0)"},
        {"loss": "(model(xt, t) - noise).mean()"},
        {"loss": "flow_loss(model, xt, noise, t)"},
        {"loss": "model(xt, t)"},
        {"noise": "target", "loss": "F.mse_loss(model(xt, t), target)"},
    ],
    ids=str,
)
def test_other_noise_is_none(changed):
    assert found(**changed) == []


def test_functions_of_the_same_file_have_noise_of_their_own():
    code = """
def noised(x0, t, noise=None):
    if noise is None:
        noise = torch.randn_like(x0)
    return x0 + t * noise

noise = torch.randn(4)
loss = (model(noised(x0, t)) - noise).square().mean()
"""
    assert [line for line, _ in found_in(code, foreign_noise)] == [7]
    code = code.replace("noise = torch.randn(4)", "noise = torch.randn(4)\nmake = lambda: noise")
    assert found_in(code, foreign_noise) == []
