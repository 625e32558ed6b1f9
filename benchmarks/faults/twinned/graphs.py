"""Faults of networks on graphs: who is whose neighbour, and how messages are weighed.

Threads: danielegrattarola/spektral#21, pyg-team/pytorch_geometric#129.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training
from benchmarks.faults.twinned.twin import Loss, seeded, set_up

_NODES, _GRAPHS = 10, 16


class Convolutions(nn.Module):
    """Three graph convolutions, of features and a matrix of neighbours side by side.

    Args:
        features: Of a node.
        adjacency: Makes the matrix that messages are weighed by.
    """

    def __init__(self, features: int, adjacency: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.features, self.adjacency = features, adjacency
        self.convs = nn.ModuleList(nn.Linear(i, 32) for i in (features, 32, 32))
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (nodes, 4)."""
        neighbours = self.adjacency(x[..., self.features :])
        x = x[..., : self.features]
        for conv in self.convs:
            x = F.relu(neighbours @ conv(x))
        return self.head(x)


def _graphs(step: int, share: float = 0.15, least: int = 1) -> Batch:
    """Nodes of graphs, whose class is told by the sign of their own and of their neighbours."""
    generator = seeded(step)
    links = (torch.rand(_GRAPHS, _NODES, _NODES, generator=generator) < share).float()
    links = ((links + links.mT) > 0).float() * (1 - torch.eye(_NODES))
    if least:  # a ring, by which no node is alone
        ring = torch.eye(_NODES).roll(1, 0)
        links = ((links + ring + ring.mT) > 0).float()
    x = torch.randn(_GRAPHS, _NODES, 8, generator=generator)
    around = links @ x[..., 1:2]
    y = (x[..., 0] > 0).long() + 2 * (around.squeeze(-1) > 0).long()
    return torch.cat([x, links], -1), y


def _loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x).flatten(0, -2), y.flatten())


@fault("mlp", WHOLE, "convs*", kinds="nan|finite|inf|divi")
def nodes_without_a_neighbour(t: Training, *, is_mended: bool = False) -> Loss:
    """Divides by the root of how many neighbours a node has, of which some have none."""

    def adjacency(links: Tensor) -> Tensor:
        degree = links.sum(-1, keepdim=True)
        scale = degree.clamp(min=1).pow(-0.5) if is_mended else degree.pow(-0.5)
        return scale * links * scale.mT

    model = Convolutions(8, adjacency)
    return set_up(t, model, lambda step: _graphs(step, 0.05, least=0), _loss)


class Joined(nn.Module):
    """Convolutions over graphs that are joined to one, whose links are pairs of indices.

    Args:
        is_offset: Whether a graph's indices count from its own first node.
    """

    def __init__(self, *, is_offset: bool) -> None:
        super().__init__()
        self.is_offset = is_offset
        self.own, self.other = nn.Linear(8, 32), nn.Linear(8, 32)
        self.own2, self.other2, self.head = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (graphs * nodes, 4)."""
        graph, to, fro = x[..., 8:].nonzero(as_tuple=True)
        if self.is_offset:
            to, fro = to + graph * _NODES, fro + graph * _NODES
        x = x[..., :8].flatten(0, 1)
        x = F.relu(self.own(x) + self._gather(self.other(x), to, fro))
        x = F.relu(self.own2(x) + self._gather(self.other2(x), to, fro))
        return self.head(x)

    def _gather(self, x: Tensor, to: Tensor, fro: Tensor) -> Tensor:
        count = torch.zeros(len(x), 1).index_add(0, to, torch.ones(len(to), 1))
        return torch.zeros_like(x).index_add(0, to, x[fro]) / count.clamp(min=1)


@fault("mlp", WHOLE, "other*", kinds="loss|plateau|graph")
def links_that_all_point_into_the_first_graph(t: Training, *, is_mended: bool = False) -> Loss:
    """Joins graphs to one without adding up the numbers of their nodes."""
    return set_up(t, Joined(is_offset=is_mended), _graphs, _loss)


class Attending(nn.Module):
    """Two layers of attention to neighbours.

    Args:
        is_by_node: Whether the weights of a node's own neighbours add up to 1.
    """

    def __init__(self, *, is_by_node: bool) -> None:
        super().__init__()
        self.is_by_node = is_by_node
        self.values = nn.ModuleList(nn.Linear(i, 32) for i in (8, 32))
        self.scores = nn.ModuleList(nn.Linear(64, 1) for _ in range(2))
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (graphs * nodes, 4)."""
        own = torch.eye(_NODES).expand(_GRAPHS, _NODES, _NODES)
        graph, to, fro = (x[..., 8:] + own).nonzero(as_tuple=True)
        to, fro = to + graph * _NODES, fro + graph * _NODES
        x = x[..., :8].flatten(0, 1)
        for value, score in zip(self.values, self.scores, strict=True):
            x = value(x)
            pairs = F.leaky_relu(score(torch.cat([x[to], x[fro]], 1)), 0.2)
            weights = self._softmax(pairs, to, len(x))
            x = F.elu(torch.zeros_like(x).index_add(0, to, weights * x[fro]))
        return self.head(x)

    def _softmax(self, scores: Tensor, to: Tensor, nodes: int) -> Tensor:
        if not self.is_by_node:
            return scores.softmax(0)
        exp = (scores - scores.max()).exp()
        return exp / torch.zeros(nodes, 1).index_add(0, to, exp)[to]


@fault("mlp", WHOLE, "values*", "scores*", kinds="loss|plateau|softmax|attention|axis")
def attention_over_all_links_at_once(t: Training, *, is_mended: bool = False) -> Loss:
    """Takes the softmax over all links of the batch, and not over those of each node."""
    return set_up(t, Attending(is_by_node=is_mended), _graphs, _loss)
