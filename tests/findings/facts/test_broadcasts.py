"""Operands that broadcast."""

import pytest
import torch.nn.functional as F

from tests.findings.facts.losses import IMAGES, LABELS, N, X, Y, conv, looked_at, many, one

BROADCAST = {
    "column and row": lambda: ((one(X) - Y) ** 2).mean(),
    "row and column": lambda: ((one(X).squeeze(1) - Y.unsqueeze(1)) ** 2).mean(),
    "reversed": lambda: (Y - one(X)).abs().sum(),
    "mse_loss": lambda: F.mse_loss(one(X), Y),
    "huber_loss": lambda: F.huber_loss(one(X).squeeze(1), Y.unsqueeze(1)),
    "weights": lambda: (F.cross_entropy(many(X), LABELS, reduction="none") * Y.unsqueeze(1)).mean(),
    "values of actions": lambda: (
        -many(X).log_softmax(-1).gather(1, LABELS.unsqueeze(1)).squeeze(1)
        * (Y.unsqueeze(1) - one(X).detach())
    ).mean(),
    "both trained": lambda: (many(X)[:, 0] * one(X)).mean(),
    "maps": lambda: (conv(IMAGES).sigmoid() * (IMAGES[:, 0] > 0)).mean(),
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("after_backward", [False, True])
@pytest.mark.parametrize("made", BROADCAST.values(), ids=BROADCAST)
def test_operands_that_broadcast_are_seen(made, after_backward):
    found = looked_at(made, after_backward=after_backward)
    assert not found.softmaxes
    assert [x.made[:2] for x in found.broadcasts] == [(N, N)]
    assert found.broadcasts[0].module in ("one", "many", "conv")
