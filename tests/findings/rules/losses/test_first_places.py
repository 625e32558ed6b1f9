"""Losses by the first place of a sequence."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx


class Model(nn.Module):
    def __init__(self, place, *, is_causal):
        super().__init__()
        self.words, self.qkv, self.head = nn.Embedding(9, 8), nn.Linear(8, 24), nn.Linear(8, 3)
        self.place, self.is_causal = place, is_causal

    def forward(self, ids):
        q, k, v = self.qkv(self.words(ids)).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        x = mixed.transpose(1, 2).flatten(2)
        return self.head(x.mean(1) if self.place is None else x[:, self.place])


@pytest.mark.parametrize(
    ("place", "is_causal", "is_told"),
    [(0, True, True), (-1, True, False), (None, True, False), (0, False, False)],
)
def test_the_first_place_alone_is_told_of_causal_attention(place, is_causal, is_told):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(Model(place, is_causal=is_causal), "transformer")
    for step in range(4):
        loss = F.cross_entropy(watched(torch.randint(9, (5, 6))), torch.randint(3, (5,)))
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "first_place"]
    assert len(found) == is_told
    assert all("sees itself, and nothing of the rest" in one.text for one in found)
