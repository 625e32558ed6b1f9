"""What is read inside of a language model on two ranks is that of one with all of their rows."""

import functools
import re
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import taiyi_fx
from taiyi_fx import MonitorWarning
from tests.distributed.models import differences, recorded, share, train
from tests.distributed.processes import run

WIDTH, WORDS, LENGTH, EXPERTS = 8, 13, 6, 4


class Attention(nn.Module):
    """Attention by torch's function, or written out, in a graph or in Python."""

    def __init__(self, is_own, stays_python):
        super().__init__()
        self.qkv, self.num_heads = nn.Linear(WIDTH, 3 * WIDTH), 2
        self.is_own, self.stays_python = is_own, stays_python

    def forward(self, x):
        if self.stays_python and x.sum() < -1e9:
            raise ValueError
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in (q, k, v))
        if self.is_own:
            y = (q @ k.transpose(-1, -2) / 2).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).flatten(2)


class Block(nn.Module):
    """An attention, and a router that scales what it returns."""

    def __init__(self, *args):
        super().__init__()
        self.attention, self.router = Attention(*args), nn.Linear(WIDTH, EXPERTS)

    def forward(self, x):
        x = x + self.attention(x)
        return x * self.router(x).softmax(-1).amax(-1, keepdim=True)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.norm = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH)
        self.blocks = nn.ModuleList(
            Block(*args) for args in ((False, False), (True, False), (True, True))
        )
        self.lm_head = nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        x = self.emb(x)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.norm(x)).transpose(1, 2)


def model():
    torch.manual_seed(0)
    return Language().double()  # what is compared is what joining does, not rounding


def data():
    g = torch.Generator().manual_seed(1)
    return [
        (
            torch.randint(WORDS, (4, LENGTH), generator=g),
            torch.randint(WORDS, (4, LENGTH), generator=g),
        )
        for _ in range(2)
    ]


HEADS = [
    [name, "every(1)", {"reduce": reduce}]
    for name in ("AttentionLogitMax", "AttentionEntropy", "AttentionSink", "HeadNorm")
    for reduce in ("all", "head")
]
ROUTERS = ["RouterLoad", "RouterEntropy", "DeadExperts"]
CFG = {
    "Attention": HEADS,
    "blocks.*.router": ROUTERS,
    "Block": [["LogitLens", "every(1)", {"positions": 100}]],
}


def on_two(rank, ranks):
    watched = taiyi_fx.instrument(model(), CFG)
    return train(DistributedDataParallel(watched), watched.monitor, share(data(), rank, ranks))


def micro_batches_on_two(rank, ranks):
    """Three rows on the first rank, in two micro-batches, and one row on the other."""
    watched = taiyi_fx.instrument(model(), CFG)
    (x, _), *_ = data()
    for rows in ((x[:1], x[1:3]), (x[3:],))[rank]:
        watched(rows).sum().backward()
    watched.monitor.track(0)
    return recorded(watched.monitor)


@functools.cache
def answers():
    return run({"two": on_two, "micro": micro_batches_on_two}, 2)


def alone():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        watched = taiyi_fx.instrument(model(), CFG)
        return train(watched, watched.monitor, data())


def micro_alone():
    watched = taiyi_fx.instrument(model(), CFG)
    (x, _), *_ = data()
    watched(x).sum().backward()
    watched.monitor.track(0)
    return recorded(watched.monitor)


@pytest.mark.parametrize(("name", "of_one"), [("two", alone), ("micro", micro_alone)])
def test_two_ranks_have_the_numbers_of_one_with_all_rows(name, of_one):
    first, second = answers()(name)
    expected = of_one()
    asked = {re.match("[A-Za-z]+", quantity)[0] for _, quantity, _ in expected}
    assert asked == {entry[0] for entry in HEADS} | {*ROUTERS, "LogitLens"}
    assert differences(first, expected) == {}
    assert not second
