"""Targets that the model is given."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings import owners_of
from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.held_targets import HeldTargets, held_targets

torch.manual_seed(0)
N, T, K = 48, 12, 10
ROWS, SERIES, CLASSES = torch.randn(N, K), torch.randn(N, T, 1), torch.randint(3, (N,))
MODEL = nn.ModuleDict(
    {
        "table": nn.Sequential(nn.Linear(K, 8), nn.ReLU(), nn.Linear(8, 3)),
        "gru": nn.GRU(1, 8, batch_first=True),
        "lstm": nn.LSTM(1, 8, batch_first=True),
        "time first": nn.GRU(1, 8),
        "conv": nn.Conv1d(1, 2, 3),
        "all": nn.Linear(K, K),
        "last": nn.Linear(8, 1),
    }
)


def table(x):
    return MODEL["table"](x)


def last(states):
    return MODEL["last"](states).squeeze(-1)


def recurrent(name):
    return last(MODEL[name](SERIES)[0][:, -1])


def time_first():
    return last(MODEL["time first"](SERIES.transpose(0, 1))[0][-1])


def conv():
    return MODEL["conv"](SERIES.transpose(1, 2)).mean((1, 2))


def labelled():
    x = ROWS.clone()
    x[:, 4] = CLASSES
    return x


HELD = {
    "gru": (lambda: F.mse_loss(recurrent("gru"), SERIES[:, -1, 0]), "gru", (11,), T),
    "lstm": (lambda: F.mse_loss(recurrent("lstm"), SERIES[:, -2, 0]), "lstm", (10,), T),
    "time first": (lambda: F.huber_loss(time_first(), SERIES[:, 3, 0]), "time first", (3,), T),
    "convolution": (lambda: F.mse_loss(conv(), SERIES[:, 0, 0]), "conv", (0,), T),
    "column": (lambda: F.mse_loss(table(ROWS)[:, 0], ROWS[:, 7]), "table.0", (7,), K),
    "two columns": (lambda: F.mse_loss(table(ROWS)[:, :2], ROWS[:, [7, 2]]), "table.0", (7, 2), K),
    "a label": (lambda: F.cross_entropy(table(labelled()), CLASSES), "table.0", (4,), K),
}


def found_in(loss):
    return held_targets(Uses.of(loss, owners_of(dict(MODEL.named_modules()))))


@pytest.mark.parametrize(("loss", "module", "entries", "count"), HELD.values(), ids=HELD)
def test_targets_among_what_a_layer_is_given_are_found(loss, module, entries, count):
    assert found_in(loss()) == HeldTargets(module, entries, count)


def released():
    loss = HELD["column"][0]()
    loss.backward()
    return loss


def of_few():
    return F.mse_loss(table(ROWS[:8])[:, 0], ROWS[:8, 7])


NONE = {
    "next of a window": lambda: F.mse_loss(recurrent("gru"), torch.randn(N)),
    "one that is not": lambda: F.mse_loss(
        table(ROWS)[:, :2], torch.stack([ROWS[:, 7], torch.randn(N)], 1)
    ),
    "an autoencoder": lambda: F.mse_loss(MODEL["all"](ROWS), ROWS),
    "a half of it": lambda: F.mse_loss(MODEL["all"](ROWS)[:, :5], ROWS[:, :5]),
    "of classes alone": lambda: F.cross_entropy(table(ROWS), CLASSES),
    "constant": lambda: F.mse_loss(table(0 * ROWS)[:, 0], torch.zeros(N)),
    "few": of_few,
    "after backward": released,
    "a number": lambda: F.mse_loss(table(ROWS).mean(), torch.tensor(0.0)),
    "no targets": lambda: table(ROWS).mean(),
}


@pytest.mark.parametrize("loss", NONE.values(), ids=NONE)
def test_other_targets_are_none(loss):
    assert found_in(loss()) is None
