"""Graphs and equivariant networks: torch-geometric and e3nn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.zoo_models.case import Batch, Case
from benchmarks.zoo_models.libraries.making import case, integers, new, normal

_NODES = 6
_BASIC = ("GCN", "GraphSAGE", "GIN", "GAT", "EdgeCNN")


def cases() -> list[Case]:
    """All cases."""
    return _basic() + _layers() + _models() + _molecules() + _equivariant()


def _basic() -> list[Case]:
    made = [
        _of_graph(
            name,
            {"in_channels": 8, "hidden_channels": 16, "num_layers": 2, "out_channels": 4},
            _graph,
        )
        for name in _BASIC
    ]
    pna = {
        "aggregators": ["mean", "max", "std"],
        "scalers": ["identity", "amplification"],
        "deg": torch.tensor([0, 2, 3, 1]),
    }
    return [
        *made,
        _of_graph("PNA", {"in_channels": 8, "hidden_channels": 16, "num_layers": 2, **pna}, _graph),
    ]


def _of_graph(name: str, options: dict[str, Any], inputs: Callable[[int], Batch]) -> Case:
    build = new(f"torch_geometric.nn:{name}", **options)
    return Case(f"libraries/torch-geometric/{name}", build, inputs)


def _layers() -> list[Case]:
    layers: dict[str, dict[str, Any]] = {
        "GATv2Conv": {"heads": 2, "dropout": 0.1},
        "TransformerConv": {"heads": 2},
        "ChebConv": {"K": 3},
        "GraphConv": {},
        "TAGConv": {},
        "SGConv": {},
        "ARMAConv": {"num_stacks": 2},
        "GatedGraphConv": {"num_layers": 2},
        "ResGatedGraphConv": {},
        "GENConv": {},
        "LEConv": {},
        "FeaStConv": {"heads": 2},
        "MFConv": {},
        "SuperGATConv": {"heads": 2},
        "ClusterGCNConv": {},
    }
    return [
        _of_graph(
            name,
            {"out_channels": 8, **({} if name == "GatedGraphConv" else _IN), **options},
            _graph,
        )
        for name, options in layers.items()
    ]


_IN = {"in_channels": 8}


def _models() -> list[Case]:
    return [
        _of_graph(
            "GraphUNet",
            {"in_channels": 8, "hidden_channels": 8, "out_channels": 4, "depth": 2},
            _graph,
        ),
        _of_graph(
            "PMLP",
            {"in_channels": 8, "hidden_channels": 8, "out_channels": 4, "num_layers": 2},
            _graph,
        ),
        _of_graph(
            "LINKX",
            {
                "num_nodes": 3 * _NODES,
                "in_channels": 8,
                "hidden_channels": 8,
                "out_channels": 4,
                "num_layers": 2,
            },
            lambda n: _graph(3),
        ),
        _of_graph(
            "AttentiveFP",
            {
                "in_channels": 8,
                "hidden_channels": 8,
                "out_channels": 4,
                "edge_dim": 3,
                "num_layers": 2,
                "num_timesteps": 2,
            },
            _graph_with_edges,
        ),
        _of_graph(
            "Polynormer",
            {"in_channels": 8, "hidden_channels": 8, "out_channels": 4, "heads": 2},
            _graph_in_batches,
        ),
        _of_graph(
            "SGFormer",
            {"in_channels": 8, "hidden_channels": 8, "out_channels": 4},
            _graph_in_batches,
        ),
        _of_graph(
            "LightGCN", {"num_nodes": 3 * _NODES, "embedding_dim": 8, "num_layers": 2}, _edges
        ),
        _of_graph(
            "MLP", {"channel_list": [8, 16, 4], "dropout": 0.1}, lambda n: ((_features(n),), {})
        ),
        case(
            "torch-geometric/a graph classifier",
            new("benchmarks.zoo_models.libraries.small_graphs:Classifier"),
            lambda n: _data(n),
        ),
        case(
            "torch-geometric/a heterogeneous network",
            new("benchmarks.zoo_models.libraries.small_graphs:Heterogeneous"),
            lambda n: {"user": _features(n), "item": _features(n)},
            lambda n: {
                ("user", "buys", "item"): _edge_index(n),
                ("item", "bought", "user"): _edge_index(n).flip(0),
            },
        ),
        case(
            "torch-geometric/PointNet++",
            new("benchmarks.zoo_models.libraries.small_graphs:Points"),
            normal(8, 3),
        ),
        case(
            "torch-geometric/VGAE",
            new("benchmarks.zoo_models.libraries.small_graphs:variational_autoencoder"),
            lambda n: _features(n),
            lambda n: _edge_index(n),
        ),
    ]


def _molecules() -> list[Case]:
    return [
        _of_graph(
            "SchNet",
            {
                "hidden_channels": 16,
                "num_filters": 16,
                "num_interactions": 2,
                "num_gaussians": 10,
                "interaction_graph": _neighbours,
            },
            _molecules_of_atoms,
        ),
    ]


def _equivariant() -> list[Case]:
    return [
        case(
            "e3nn/FullyConnectedTensorProduct",
            new(
                "e3nn.o3:FullyConnectedTensorProduct",
                "4x0e + 2x1o",
                "2x0e + 1x1o",
                "4x0e + 2x1o",
            ),
            normal(10),
            normal(5),
        ),
        case(
            "e3nn/a gated convolution",
            new("benchmarks.zoo_models.libraries.small_graphs:gated"),
            normal(4 + 3 * 2),
        ),
        case(
            "e3nn/a message passing network",
            new("benchmarks.zoo_models.libraries.small_graphs:EquivariantMessages"),
            lambda n: torch.randn(n * _NODES, 3),
            lambda n: _edge_index(n),
            integers(4, _NODES),
        ),
    ]


def _features(n: int) -> Tensor:
    return torch.randn(n * _NODES, 8)


def _edge_index(n: int) -> Tensor:
    """Each node's edges to the next two of its graph, and back; ``n`` graphs."""
    nodes = torch.arange(n * _NODES).view(n, _NODES)
    pairs = [torch.stack([nodes, nodes.roll(-shift, 1)]) for shift in (1, 2)]
    there = torch.cat(pairs, dim=2).flatten(1)
    return torch.cat([there, there.flip(0)], dim=1)


def _graph(n: int) -> Batch:
    return (_features(n), _edge_index(n)), {}


def _edges(n: int) -> Batch:
    return (_edge_index(n),), {}


def _batch(n: int) -> Tensor:
    return torch.arange(n).repeat_interleave(_NODES)


def _graph_in_batches(n: int) -> Batch:
    return (_features(n), _edge_index(n), _batch(n)), {}


def _graph_with_edges(n: int) -> Batch:
    edges = _edge_index(n)
    return (_features(n), edges, torch.randn(edges.shape[1], 3), _batch(n)), {}


def _molecules_of_atoms(n: int) -> Batch:
    return (torch.randint(1, 9, (n * _NODES,)), 2 * torch.randn(n * _NODES, 3), _batch(n)), {}


def _data(n: int) -> Any:
    from torch_geometric.data import Data

    return Data(x=_features(n), edge_index=_edge_index(n), batch=_batch(n))


def _neighbours(places: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
    """Edges between all nodes of the same graph, and their lengths."""
    is_same = batch[:, None] == batch[None]
    edges = (is_same & ~torch.eye(len(batch), dtype=torch.bool)).nonzero().t()
    return edges, (places[edges[0]] - places[edges[1]]).norm(dim=1)
