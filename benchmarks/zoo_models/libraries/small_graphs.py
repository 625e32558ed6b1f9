"""Small models of our own of the layers of torch-geometric and e3nn."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Classifier(nn.Module):
    """Convolutions, norms and pooling on a batch of graphs, given as one `Data`."""

    def __init__(self) -> None:
        super().__init__()
        from torch_geometric import nn as graphs

        self.first = graphs.GCNConv(8, 16)
        self.norm = graphs.BatchNorm(16)
        self.pool = graphs.TopKPooling(16, ratio=0.5)
        self.second = graphs.GINConv(nn.Sequential(nn.Linear(16, 16), nn.ReLU()))
        self.graph_norm = graphs.GraphNorm(16)
        self.read = graphs.global_mean_pool
        self.head = nn.Linear(16, 3)

    def forward(self, data: Any) -> Tensor:
        """Scores of each graph."""
        x = self.norm(self.first(data.x, data.edge_index)).relu()
        x, edges, _, batch, _, _ = self.pool(x, data.edge_index, batch=data.batch)
        x = self.graph_norm(self.second(x, edges), batch)
        return self.head(self.read(x, batch))


class Heterogeneous(nn.Module):
    """Two kinds of nodes with a convolution for each kind of edge."""

    def __init__(self) -> None:
        super().__init__()
        from torch_geometric import nn as graphs

        there, back = ("user", "buys", "item"), ("item", "bought", "user")
        self.first = graphs.HeteroConv(
            {there: graphs.SAGEConv((8, 8), 16), back: graphs.SAGEConv((8, 8), 16)}, aggr="sum"
        )
        self.second = graphs.HGTConv(16, 8, (["user", "item"], [there, back]), heads=2)
        self.head = graphs.HeteroDictLinear(8, 4, ["user", "item"])

    def forward(self, x: dict[str, Tensor], edges: dict[Any, Tensor]) -> dict[str, Tensor]:
        """Scores of each node."""
        hidden = {kind: value.relu() for kind, value in self.first(x, edges).items()}
        return self.head(self.second(hidden, edges))


class Points(nn.Module):
    """Points with edges between neighbours of the same cloud, in the way of PointNet++."""

    def __init__(self) -> None:
        super().__init__()
        from torch_geometric import nn as graphs

        self.first = graphs.PointNetConv(nn.Linear(3, 16), nn.Linear(16, 16))
        self.second = graphs.PointNetConv(nn.Linear(16 + 3, 16), nn.Linear(16, 16))
        self.read = graphs.aggr.SoftmaxAggregation(learn=True)
        self.head = nn.Linear(16, 3)

    def forward(self, clouds: Tensor) -> Tensor:
        """Scores of clouds of points, ``(samples, points, 3)``."""
        n, count, _ = clouds.shape
        nodes = torch.arange(n * count).view(n, count)
        nearest = torch.cdist(clouds, clouds).topk(3, largest=False).indices
        sources = nodes.gather(1, nearest.flatten(1)).flatten()
        edges = torch.stack([sources, nodes.flatten().repeat_interleave(3)])
        places = clouds.flatten(0, 1)
        x = self.first(None, places, edges).relu()
        x = self.second(x, places, edges)
        return self.head(self.read(x, torch.arange(n).repeat_interleave(count)))


def variational_autoencoder() -> nn.Module:
    """A variational autoencoder of a graph; its forward encodes."""
    from torch_geometric.nn import VGAE, GCNConv

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = GCNConv(8, 8)
            self.mean, self.deviation = GCNConv(8, 4), GCNConv(8, 4)

        def forward(self, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
            x = self.shared(x, edges).relu()
            return self.mean(x, edges), self.deviation(x, edges)

    return VGAE(Encoder())


def gated() -> nn.Module:
    """A linear layer and a gate that commute with rotations."""
    from e3nn import o3
    from e3nn.nn import BatchNorm, Gate

    gate = Gate("4x0e", [torch.relu], "2x0e", [torch.sigmoid], "2x1o")
    return nn.Sequential(o3.Linear("4x0e + 2x1o", gate.irreps_in), gate, BatchNorm(gate.irreps_out))


class EquivariantMessages(nn.Module):
    """Messages weighted by distance and direction."""

    def __init__(self) -> None:
        super().__init__()
        from e3nn import o3
        from e3nn.math import soft_one_hot_linspace
        from e3nn.nn import FullyConnectedNet

        self.harmonics, self.distances = o3.spherical_harmonics, soft_one_hot_linspace
        self.directions = o3.Irreps.spherical_harmonics(1)
        self.embedding = nn.Embedding(4, 8)
        self.product = o3.FullyConnectedTensorProduct(
            "8x0e", self.directions, "4x0e + 2x1o", shared_weights=False
        )
        self.weights = FullyConnectedNet([6, 16, self.product.weight_numel], torch.relu)
        self.out = o3.Linear("4x0e + 2x1o", "3x0e")

    def forward(self, places: Tensor, edges: Tensor, kinds: Tensor) -> Tensor:
        """Scores of nodes at places, joined by edges, of kinds."""
        sources, targets = edges
        x = self.embedding(kinds.flatten())
        steps = places[targets] - places[sources]
        lengths = self.distances(steps.norm(dim=1), 0.0, 4.0, 6, basis="smooth_finite", cutoff=True)
        directions = self.harmonics(self.directions, steps, True, normalization="component")
        messages = self.product(x[sources], directions, self.weights(lengths))
        gathered = messages.new_zeros(len(x), messages.shape[1])
        return self.out(gathered.index_add(0, targets, messages))
