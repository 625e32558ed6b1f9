"""Networks of graphs, points and sets, written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx
from benchmarks.faults.sound.pictures import batches, digits
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


def communities(nodes: int = 120, classes: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Noisy features of nodes, edges mostly within classes, and the classes."""
    y = torch.arange(nodes) % classes
    x = F.one_hot(y, 16).float() + 0.8 * torch.randn(nodes, 16)
    chance = torch.where(y[:, None] == y, 0.15, 0.01)
    edges = torch.nonzero(torch.rand(nodes, nodes) < torch.maximum(chance, torch.eye(nodes))).T
    return x, torch.cat([edges, edges.flip(0)], 1).unique(dim=1), y


class Gcn(nn.Module):
    """Kipf's network (arXiv 1609.02907)."""

    def __init__(self, before: int, width: int, classes: int, depth: int) -> None:
        super().__init__()
        sizes = [before, *[width] * (depth - 1), classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """Logits of nodes."""
        for layer in self.layers[:-1]:
            x = self.dropout(F.relu(torch.sparse.mm(adjacency, layer(x))))
        return torch.sparse.mm(adjacency, self.layers[-1](x))


class Gat(nn.Module):
    """A layer of graph attention, by scatters."""

    def __init__(self, before: int, after: int, heads: int) -> None:
        super().__init__()
        self.heads, self.after = heads, after
        self.lin = nn.Linear(before, heads * after, bias=False)
        self.att_src = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, after)))
        self.att_dst = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, after)))
        self.bias = nn.Parameter(torch.zeros(heads * after))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Of (nodes, heads * after)."""
        n, (source, target) = len(x), edges
        h = self.lin(x).view(n, self.heads, self.after)
        logits = F.leaky_relu(
            (h * self.att_src).sum(-1)[source] + (h * self.att_dst).sum(-1)[target], 0.2
        )
        weight = torch.exp(logits - logits.max())
        total = torch.zeros(n, self.heads).index_add(0, target, weight)
        weight = F.dropout(weight / (total[target] + 1e-16), 0.6, self.training)
        out = torch.zeros_like(h).index_add(0, target, h[source] * weight[..., None])
        return out.flatten(1) + self.bias


class GatNet(nn.Module):
    """Two such layers."""

    def __init__(self, before: int, width: int, classes: int, heads: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = Gat(before, width, heads), Gat(heads * width, classes, 1)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Logits of nodes."""
        x = F.elu(self.conv1(F.dropout(x, 0.6, self.training), edges))
        return self.conv2(F.dropout(x, 0.6, self.training), edges)


@sound({"net": "gcn"}, {"net": "gcn", "depth": 4}, {"net": "gat"}, {"net": "gat", "heads": 16})
def nodes_of_a_graph(net: str, depth: int = 2, heads: int = 4) -> Iterator[Monitor]:
    """Semi-supervised classes of nodes, as of Cora: the whole graph at each step, few labels."""
    x, edges, y = communities()
    n = len(x)
    degree = torch.bincount(edges[1], minlength=n).float()
    values = (degree[edges[0]] * degree[edges[1]]).rsqrt()
    adjacency = torch.sparse_coo_tensor(edges, values, (n, n)).coalesce()
    known = torch.rand(n) < 0.3
    model: Any = Gcn(16, 16, 4, depth) if net == "gcn" else GatNet(16, 8, 4, heads)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=0.01 if net == "gcn" else 0.005, weight_decay=5e-4
    )
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(200):
        model.train()
        optimizer.zero_grad()
        out = model(x, adjacency if net == "gcn" else edges)
        loss = F.nll_loss(F.log_softmax(out, 1)[known], y[known])
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor
        model.eval()
        with torch.no_grad():
            model(x, adjacency if net == "gcn" else edges)


class Messages(nn.Module):
    """An MPNN with a GRU, edge features and a sum over nodes (arXiv 1704.01212)."""

    def __init__(self, width: int, rounds: int) -> None:
        super().__init__()
        self.embed, self.rounds = nn.Embedding(5, width), rounds
        self.message = nn.Sequential(
            nn.Linear(2 * width + 1, width), nn.ReLU(), nn.Linear(width, width)
        )
        self.update = nn.GRUCell(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.readout = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(
        self, z: Tensor, edges: Tensor, length: Tensor, graph: Tensor, graphs: int
    ) -> Tensor:
        """One number of each graph."""
        h, (source, target) = self.embed(z), edges
        for _ in range(self.rounds):
            message = self.message(torch.cat([h[source], h[target], length], 1))
            h = self.update(torch.zeros_like(h).index_add(0, target, message), h)
        h = self.norm(h)
        return self.readout(torch.zeros(graphs, h.shape[1]).index_add(0, graph, h)).squeeze(1)


@sound({}, {"graphs": 16, "width": 16})
def molecules(graphs: int = 16, width: int = 32) -> Iterator[Monitor]:
    """A number of each molecule, whose count of atoms differs: batches of other sizes each step."""
    model: Any = Messages(width, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.7, patience=20)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(120):
        sizes = torch.randint(4, 10, (graphs,))
        graph = torch.repeat_interleave(torch.arange(graphs), sizes)
        n = len(graph)
        z, places = torch.randint(5, (n,)), torch.randn(n, 3)
        far = torch.cdist(places, places)
        edges = torch.nonzero(
            (graph[:, None] == graph) & (far < 2) & ~torch.eye(n, dtype=torch.bool)
        ).T
        length = far[edges[0], edges[1]][:, None]
        pull = (z[edges[0]] * z[edges[1]])[:, None] * torch.exp(-length)
        target = torch.zeros(graphs).index_add(0, graph[edges[0]], pull[:, 0]) / 30 - 1
        loss = F.l1_loss(model(z, edges, length, graph, graphs), target)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        scheduler.step(loss.item())
        yield model.monitor


class TNet(nn.Module):
    """PointNet's transform, which begins as the identity."""

    def __init__(self, k: int, width: int) -> None:
        super().__init__()
        self.k = k
        self.conv1, self.conv2 = nn.Conv1d(k, width, 1), nn.Conv1d(width, 2 * width, 1)
        self.fc1, self.fc2 = nn.Linear(2 * width, width), nn.Linear(width, k * k)
        self.bn1, self.bn2, self.bn3 = (
            nn.BatchNorm1d(width),
            nn.BatchNorm1d(2 * width),
            nn.BatchNorm1d(width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Matrices."""
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x))).amax(2)
        x = self.fc2(F.relu(self.bn3(self.fc1(x))))
        return x.view(-1, self.k, self.k) + torch.eye(self.k)


class PointNet(nn.Module):
    """PointNet with both transforms."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.stn, self.fstn = TNet(3, width), TNet(width, width)
        self.conv1, self.conv2, self.conv3 = (
            nn.Conv1d(3, width, 1),
            nn.Conv1d(width, 2 * width, 1),
            nn.Conv1d(2 * width, 4 * width, 1),
        )
        self.bn1, self.bn2, self.bn3 = (
            nn.BatchNorm1d(width),
            nn.BatchNorm1d(2 * width),
            nn.BatchNorm1d(4 * width),
        )
        self.fc1, self.fc2, self.fc3 = (
            nn.Linear(4 * width, 2 * width),
            nn.Linear(2 * width, width),
            nn.Linear(width, classes),
        )
        self.bn4, self.bn5, self.dropout = (
            nn.BatchNorm1d(2 * width),
            nn.BatchNorm1d(width),
            nn.Dropout(0.3),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of probabilities, and the transform of features."""
        x = torch.bmm(x.transpose(2, 1), self.stn(x)).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        transform = self.fstn(x)
        x = torch.bmm(x.transpose(2, 1), transform).transpose(2, 1)
        x = F.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x)).amax(2)
        x = F.relu(self.bn4(self.fc1(x)))
        x = F.relu(self.bn5(self.dropout(self.fc2(x))))
        return F.log_softmax(self.fc3(x), 1), transform


def clouds(size: int, points: int) -> tuple[Tensor, Tensor]:
    """Points on balls, cubes and tubes, turned about one axis."""
    y = torch.randint(3, (size,))
    x = torch.randn(size, points, 3)
    ball, cube = F.normalize(x, dim=2), x / x.abs().amax(2, keepdim=True)
    tube = torch.cat([F.normalize(x[..., :2], dim=2), x[..., 2:].clamp(-1, 1)], 2)
    x = torch.where((y == 0)[:, None, None], ball, torch.where((y == 1)[:, None, None], cube, tube))
    return x.transpose(1, 2) + 0.02 * torch.randn(size, 3, points), y


@sound({}, {"size": 24, "points": 24, "width": 24})
def point_net(size: int = 24, points: int = 48, width: int = 16) -> Iterator[Monitor]:
    """PointNet: nll_loss, a small regularizer of its transform, StepLR."""
    model: Any = PointNet(width, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.999))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=60, gamma=0.5)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(100):
        x, y = clouds(size, points)
        out, transform = model(x)
        off = torch.eye(width) - torch.bmm(transform, transform.transpose(2, 1))
        loss = F.nll_loss(out, y) + 0.001 * off.norm(dim=(1, 2)).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        scheduler.step()
        yield model.monitor


class Mab(nn.Module):
    """The attention block of the set transformer, as its authors wrote it: heads in the batch."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(width, width) for _ in range(4))
        self.ln0, self.ln1 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Of q's shape."""
        q, k, v = self.fc_q(q), self.fc_k(k), self.fc_v(k)
        part = self.width // self.heads
        q_, k_, v_ = (torch.cat(one.split(part, 2), 0) for one in (q, k, v))
        weight = torch.softmax(q_.bmm(k_.transpose(1, 2)) / self.width**0.5, 2)
        out = torch.cat((q_ + weight.bmm(v_)).split(len(q), 0), 2)
        out = self.ln0(out)
        return self.ln1(out + F.relu(self.fc_o(out)))


class SetTransformer(nn.Module):
    """Two ISABs with inducing points, and a PMA of one seed."""

    def __init__(self, width: int, heads: int, inducing: int) -> None:
        super().__init__()
        self.enter = nn.Linear(1, width)
        self.points = nn.ParameterList(
            nn.init.xavier_uniform_(torch.empty(1, inducing, width)) for _ in range(2)
        )
        self.into = nn.ModuleList(Mab(width, heads) for _ in range(2))
        self.back = nn.ModuleList(Mab(width, heads) for _ in range(2))
        self.seed = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, 1, width)))
        self.pma, self.leave = Mab(width, heads), nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """A number of each set."""
        x = self.enter(x)
        for points, into, back in zip(self.points, self.into, self.back, strict=True):
            x = back(x, into(points.expand(len(x), -1, -1), x))
        return self.leave(self.pma(self.seed.expand(len(x), -1, -1), x))[:, 0, 0]


@sound({}, {"size": 16, "width": 16, "heads": 4, "inducing": 16}, {"size": 1})
def largest_of_a_set(
    size: int = 32, width: int = 32, heads: int = 4, inducing: int = 8
) -> Iterator[Monitor]:
    """The set transformer's toy: the largest of some numbers, L1."""
    model: Any = SetTransformer(width, heads, inducing)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(150):
        x = torch.rand(size, int(torch.randint(2, 17, ())), 1)
        loss = F.l1_loss(model(x), x.amax((1, 2)))
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Capsules(nn.Module):
    """CapsNet in small: routing by agreement in three rounds (arXiv 1710.09829)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3)
        self.primary = nn.Conv2d(width, 4 * 8, 3, 2)
        self.w = nn.Parameter(0.05 * torch.randn(1, 16, 10, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        """Lengths of the ten capsules."""
        x = self.primary(F.relu(self.conv(x)))
        u = squash(x.view(len(x), 4, 8, -1).permute(0, 1, 3, 2).reshape(len(x), -1, 8))
        guess = (self.w @ u[:, :, None, :, None])[..., 0]
        logits = torch.zeros(guess.shape[:3])
        for i in range(3):
            weight = F.softmax(logits, 2)[..., None]
            v = squash((weight * guess).sum(1))
            if i < 2:
                logits = logits + (guess.detach() * v.detach()[:, None]).sum(-1)
        return v.norm(dim=-1)


def squash(x: Tensor) -> Tensor:
    """Vectors of a length below 1."""
    square = x.square().sum(-1, keepdim=True)
    return square / (1 + square) * x / (square + 1e-8).sqrt()


@sound({}, {"size": 10})
def capsules(size: int = 32) -> Iterator[Monitor]:
    """CapsNet by the margin loss."""
    x, y = digits()
    model: Any = Capsules(24)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step, (pictures, labels) in enumerate(batches(size, x[: 100 * size], y[: 100 * size])):
        length = model(pictures)
        hot = F.one_hot(labels, 10)
        loss = (
            (hot * F.relu(0.9 - length) ** 2 + 0.5 * (1 - hot) * F.relu(length - 0.1) ** 2)
            .sum(1)
            .mean()
        )
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor
