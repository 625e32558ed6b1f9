"""Noise and its scale in the loss of a variational autoencoder."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.noise import OddNoise, odd_noise

BOTH, MEAN, LOG, DECODER = (nn.Linear(*sizes) for sizes in ((6, 8), (6, 4), (6, 4), (4, 6)))
X = torch.randn(16, 6)
NAMES = {id(LOG.weight): "log", id(BOTH.weight): "both", id(MEAN.weight): "mean"}
SCALES = {
    "the logarithm": lambda x: x,
    "its exponential": torch.exp,
    "the deviation": lambda x: torch.exp(0.5 * x),
    "halved": lambda x: (x / 2).exp(),
    "a root": lambda x: x.exp().sqrt(),
}


def heads():
    return MEAN(X), LOG(X)


def chunks():
    return BOTH(X).chunk(2, dim=1)


def divergence(mean, log):
    return -0.5 * torch.sum(1 + log - mean**2 - log.exp()) / 16


def turned_round(mean, log):
    return 0.5 * (log.exp() + mean.square() - log - 1).sum(1).mean()


def of_deviations(mean, log):
    return -0.5 * (1 + 2 * log - mean**2 - (2 * log).exp()).mean()


def found_in(scale, made=heads, term=divergence):
    mean, log = made()
    z = mean + torch.randn(16, 4) * scale(log)
    return [*odd_noise(Uses.of(F.mse_loss(DECODER(z), X) + term(mean, log), NAMES))]


@pytest.mark.parametrize("term", [divergence, turned_round])
@pytest.mark.parametrize(("made", "name"), [(heads, "log"), (chunks, "both")])
@pytest.mark.parametrize("scale", SCALES)
def test_noise_times_the_logarithm_of_a_variance_is_found(scale, made, name, term):
    expected = {
        "the logarithm": [OddNoise(name, is_exponential=False)],
        "its exponential": [OddNoise(name, is_exponential=True)],
    }
    assert found_in(SCALES[scale], made, term) == expected.get(scale, [])


def test_the_exponential_of_the_logarithm_of_a_deviation_is_meant():
    assert found_in(torch.exp, term=of_deviations) == []


def test_after_a_backward_nothing_is_said():
    mean, log = heads()
    loss = DECODER(mean + torch.randn(16, 4) * log).sum() + divergence(mean, log)
    loss.backward()
    assert [*odd_noise(Uses.of(loss, NAMES))] == []
