"""Mistakes in graph networks: degrees, self-loops, depth and readouts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import held_out
from benchmarks.faults.own.training import seeded, train
from benchmarks.faults.training import Training


def citations(step: int, alone: int = 6) -> Batch:
    """A graph of 48 papers: features beside the adjacency, as (48, 8 + 48), and their classes.

    Args:
        step: Of the training.
        alone: How many papers nobody cites.
    """
    generator = seeded(step)
    y = torch.randint(3, (48,), generator=generator)
    centers = torch.randn(3, 8, generator=seeded(-3))
    x = 0.5 * centers[y] + torch.randn(48, 8, generator=generator)
    chance = torch.where(y[:, None] == y, 0.3, 0.02)
    linked = (torch.rand(48, 48, generator=generator) < chance).float().triu(1)
    linked[:alone], linked[:, :alone] = 0, 0
    return torch.cat([x, linked + linked.t()], 1), y


class GCNConv(nn.Module):
    """A graph convolution.

    Args:
        inputs: Features that come in.
        outputs: Features that go out.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        """Rows of (nodes, outputs)."""
        return adj @ self.lin(x)


class GCN(nn.Module):
    """Graph convolutions and classes of nodes.

    Args:
        loops: Whether each node is its own neighbour.
        normalize: "sym" for both sides' degrees, "row" for means, or "" for sums.
        depth: How many convolutions there are.
        skips: Whether each adds to what it is given.
    """

    def __init__(
        self, *, loops: bool, normalize: str = "sym", depth: int = 2, skips: bool = False
    ) -> None:
        super().__init__()
        self.loops, self.normalize, self.skips = loops, normalize, skips
        self.inp = nn.Linear(8, 24)
        self.convs = nn.ModuleList(GCNConv(24, 24) for _ in range(depth))
        self.out = nn.Linear(24, 3)

    def forward(self, graph: Tensor) -> Tensor:
        """Logits of (nodes, 3)."""
        x, adj = graph[:, :8], graph[:, 8:]
        if self.loops:
            adj = adj + torch.eye(adj.size(0))
        if self.normalize == "sym":
            deg_inv_sqrt = adj.sum(1).pow(-0.5)
            adj = deg_inv_sqrt[:, None] * adj * deg_inv_sqrt[None, :]
        elif self.normalize == "row":
            adj = adj / adj.sum(1, keepdim=True).clamp(min=1)
        x = F.relu(self.inp(x))
        for conv in self.convs:
            made = F.relu(conv(x, adj))
            x = x + made if self.skips else made
        return self.out(x)


def _nodes(t: Training, net: nn.Module, alone: int = 6, steps: int = 120) -> None:
    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(net(x), y)

    train(t, net, loss, lambda step: citations(step, alone), lr=5e-3)
    t.steps = steps


@held_out("mlp", "convs*", kinds="non_finite")
def papers_that_nobody_cites(t: Training, *, mended: bool = False) -> None:
    """NaN on Citeseer: isolated nodes have a degree of 0, whose root is divided by.

    BorealisAI/SLAPS-GNN#3, Zhongdao/gcn_clustering#6, chainer/chainer-chemistry#169
    """
    _nodes(t, GCN(loops=mended))


@held_out("mlp", "convs*", kinds="missing_residual|odd_forward")
def nodes_that_do_not_see_themselves(t: Training, *, mended: bool = False) -> None:
    """Without normalising no self-loops are added, and a node's own features are lost.

    pyg-team/pytorch_geometric#6251
    """
    _nodes(t, GCN(loops=mended, normalize="row", depth=1), alone=30)


@held_out("mlp", "convs*", kinds="growing_values|^growth|exploding_gradient")
def neighbours_summed_over_eight_layers(t: Training, *, mended: bool = False) -> None:
    """Values grow from layer to layer: the adjacency is used as it is, without its degrees.

    benedekrozemberczki/AttentionWalk#9
    """
    _nodes(t, GCN(loops=True, normalize="sym" if mended else "", depth=8, skips=True), alone=0)


@held_out("mlp", "convs*", kinds="rank_collapse|vanishing_gradient|missing_residual")
def ten_rounds_of_messages(t: Training, *, mended: bool = False) -> None:
    """Accuracy stuck: nodes are all alike behind many convolutions without skips.

    kaggle.curtischong.me/ml-concepts/Over-smoothing
    """
    _nodes(t, GCN(loops=True, normalize="row", depth=10, skips=mended), alone=0)


class Molecules(nn.Module):
    """A class for each of many small graphs, whose nodes come one behind the other.

    Args:
        apart: Whether nodes are pooled for each graph, or all together.
    """

    def __init__(self, *, apart: bool) -> None:
        super().__init__()
        self.apart = apart
        self.conv = GCNConv(4, 32)
        self.lin = nn.Linear(32, 2)

    def forward(self, atoms: Tensor) -> Tensor:
        """Logits of (graphs, 2)."""
        ring = torch.eye(5) + torch.eye(5).roll(1, 0) + torch.eye(5).roll(-1, 0)
        graphs = atoms.size(0) // 5
        adj = torch.block_diag(*[ring / 3] * graphs)
        x = F.relu(self.conv(atoms, adj))
        if self.apart:
            return self.lin(x.view(graphs, 5, -1).mean(1))
        return self.lin(x.mean(0, keepdim=True)).expand(graphs, 2)


def molecules(step: int) -> Batch:
    """Atoms of 32 rings of five, and whether the first kind is the commonest."""
    atoms = torch.randn(160, 4, generator=seeded(step))
    return atoms, (atoms.view(32, 5, 4).mean(1)[:, 0] > 0).long()


@held_out("mlp", "lin", kinds="rank_collapse|broadcast|repeated_input")
def one_readout_for_all_graphs(t: Training, *, mended: bool = False) -> None:
    """The same prediction for all: nodes of the whole batch are pooled into one graph.

    pyg-team/pytorch_geometric#4809, pyg-team/pytorch_geometric#258
    """
    net = Molecules(apart=mended)
    train(t, net, lambda net, x, y: F.cross_entropy(net(x), y), molecules, lr=1e-2)
