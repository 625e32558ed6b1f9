"""Layers and samples that losses are made of."""

import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings import loss_graph_of, owners_of

N, T, K = 12, 5, 7
LINEAR = nn.ModuleDict(
    {
        "one": nn.Linear(6, 1),
        "many": nn.Linear(6, K),
        "conv": nn.Conv2d(3, 1, 3, padding=1),
        "other": nn.Linear(6, N),
    }
)
X, Y, LABELS = torch.randn(N, 6), torch.randn(N), torch.randint(K, (N,))
SEQUENCES, IMAGES = torch.randn(N, T, 6), torch.randn(N, 3, 8, 8)
VALUES, TIME_FIRST = torch.randn(N, T, 4), torch.randn(T, N, 6)
ADJACENCY = (torch.rand(N, N) < 0.3).float()
one, many, conv, other = LINEAR["one"], LINEAR["many"], LINEAR["conv"], LINEAR["other"]
ALPHA = nn.Parameter(torch.randn(N, K))


def routed(axis):
    """The two best of some experts, as a mixture of experts takes them."""
    weight, index = F.softmax(many(X), axis).topk(2, -1)
    row, slot = (index == index[0, 0]).nonzero(as_tuple=True)
    return torch.zeros(N, 4).index_add(0, row, weight[row, slot].unsqueeze(1) * torch.ones(4))


def pooled(axis, over):
    """The mean over time, by weights."""
    return (one(SEQUENCES).softmax(axis) * VALUES).sum(over)


def looked_at(made, *, after_backward):
    loss = made()
    if after_backward and isinstance(loss, torch.Tensor) and loss.grad_fn is not None:
        loss.backward()
    return loss_graph_of(loss, owners_of(LINEAR))
