"""The sign of logarithms whose exponential is a factor."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings import loss_graph_of
from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.volumes import turned_signs

torch.manual_seed(0)
FIRST, SECOND, HEAD = nn.Linear(1, 2), nn.Linear(1, 2), nn.Linear(3, 2)
NAMES = {id(FIRST.weight): "first", id(SECOND.weight): "second", id(HEAD.weight): "head"}
X, FEATURES, Y = torch.randn(32, 2), torch.randn(32, 3), torch.randn(32)


def flow(*, divides=False, is_bounded=True):
    """The code and the log determinant of two couplings."""
    x, logdet = X, torch.zeros(32)
    for layer in (FIRST, SECOND):
        a, b = x.chunk(2, 1)
        s, t = layer(a).chunk(2, 1)
        s = 2 * torch.tanh(s) if is_bounded else s
        b = (b - t) * torch.exp(-s) if divides else b * s.exp() + t
        x = torch.cat([b, a], 1)
        logdet = logdet - s.sum(1) if divides else logdet + s.sum(1)
    return x, logdet


def likelihood(sign, **options):
    z, logdet = flow(**options)
    logp = -0.5 * (z**2).sum(1) - math.log(2 * math.pi)
    return -(logp + sign * logdet).mean()


def of_variance(sign):
    mean, logvar = HEAD(FEATURES).unbind(1)
    return (0.5 * (-logvar).exp() * (Y - mean) ** 2 + sign * 0.5 * logvar).mean()


def autoencoder(sign):
    mean, logvar = HEAD(FEATURES).chunk(2, 1)
    z = mean + torch.randn(32, 1) * torch.exp(0.5 * logvar)
    divergence = -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum(1).mean()
    return F.mse_loss(z.expand(32, 2), X) + sign * divergence


def sharpness():
    scale = HEAD(FEATURES).mean()
    return F.cross_entropy(FEATURES * scale.exp(), torch.zeros(32, dtype=torch.long)) + scale


def of_tasks(sign):
    scales = SECOND.bias * 1.0
    losses = [
        F.cross_entropy(HEAD(FEATURES), torch.zeros(32, dtype=torch.long)),
        F.mse_loss(FIRST(X[:, :1]), X),
    ]
    return (torch.exp(sign * scales) * torch.stack(losses) + scales).sum()


def ratio():
    logp = HEAD(FEATURES)[:, 0]
    return -(torch.exp(logp - logp.detach()) * Y).mean() + 0.5 * F.mse_loss(HEAD(FEATURES)[:, 1], Y)


@pytest.mark.parametrize("options", [{}, {"divides": True}, {"is_bounded": False}])
@pytest.mark.parametrize(("sign", "modules"), [(1, set()), (-1, {"first", "second"})])
def test_a_log_determinant_is_subtracted(options, sign, modules):
    assert {*turned_signs(Uses.of(likelihood(sign, **options), NAMES))} == modules


@pytest.mark.parametrize(
    ("loss", "is_odd"),
    [
        (lambda: of_variance(1), False),
        (lambda: of_variance(-1), True),
        (lambda: autoencoder(1), False),
        (lambda: autoencoder(-1), True),
        (sharpness, False),
        (lambda: of_tasks(1), True),
        (lambda: of_tasks(-1), False),
        (ratio, False),
        (lambda: F.mse_loss(HEAD(FEATURES).exp(), X), False),
        (lambda: HEAD(FEATURES).sum(), False),
    ],
    ids=[
        *("a variance", "of the wrong sign", "a divergence", "that is subtracted"),
        *(
            "a sharpness",
            "weights of tasks that fall",
            "weights of tasks",
            "a policy",
            "an exponential",
            "a sum",
        ),
    ],
)
def test_other_logarithms(loss, is_odd):
    assert bool([*turned_signs(Uses.of(loss(), NAMES))]) == is_odd


def test_after_a_backward_nothing_is_said():
    loss = likelihood(-1)
    loss.backward()
    assert [*turned_signs(Uses.of(loss, NAMES))] == []


def test_sums_on_any_number_of_ways_are_looked_at_in_no_time():
    """As of a leaky integrator, which adds itself to itself at each step: 2**200 ways."""
    first = HEAD(FEATURES)
    state = first
    for _ in range(200):
        state = state + (first - state) * 0.1
    loss = (state.exp() * X - state).square().mean() + state.mean()
    assert len(loss_graph_of(loss, NAMES).turned_signs) <= 1
    similar = F.cosine_similarity(HEAD(FEATURES), HEAD(FEATURES.flip(0))).mean()
    for _ in range(200):
        similar = similar / 2 + similar / 2
    assert loss_graph_of(-similar, NAMES).pulled_alone == "head"


def test_a_product_with_a_number_is_no_square():
    """As torch multiplies parts of a loss with smoothed labels."""
    labels = torch.randint(2, (32,))
    loss = F.cross_entropy(HEAD(FEATURES), labels, label_smoothing=0.1)
    assert [*turned_signs(Uses.of(loss, NAMES))] == []
