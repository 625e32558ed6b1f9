"""Trainings by tables and series: regression, quantiles, several tasks, averages, LBFGS."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

import taiyi_fx
from benchmarks.faults.sound.made_data import waves
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


class Tabular(nn.Module):
    """fastai's tabular model: embeddings of categories, normed numbers, layers with BatchNorm."""

    def __init__(self, sizes: list[int], numbers: int, hidden: int, out: int) -> None:
        super().__init__()
        self.embeds = nn.ModuleList(nn.Embedding(n, min(50, (n + 1) // 2)) for n in sizes)
        for embed in self.embeds:
            nn.init.trunc_normal_(embed.weight, std=0.01)  # pyright: ignore
        self.emb_drop, self.bn_cont = nn.Dropout(0.05), nn.BatchNorm1d(numbers)
        width = sum(min(50, (n + 1) // 2) for n in sizes) + numbers
        self.layers = nn.Sequential(
            nn.Linear(width, hidden, bias=False),
            nn.ReLU(inplace=True),
            nn.BatchNorm1d(hidden),
            nn.Dropout(0.1),
            nn.Linear(hidden, hidden // 2, bias=False),
            nn.ReLU(inplace=True),
            nn.BatchNorm1d(hidden // 2),
            nn.Dropout(0.1),
            nn.Linear(hidden // 2, out),
        )

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:
        """Of (samples, out)."""
        x = [embed(categories[:, i]) for i, embed in enumerate(self.embeds)]
        x = self.emb_drop(torch.cat(x, 1))
        return self.layers(torch.cat([x, self.bn_cont(numbers)], 1))


@sound({}, {"classes": 1}, {"samples": 16, "hidden": 16, "classes": 16}, {"narrow": True})
def tabular(
    samples: int = 64, hidden: int = 64, classes: int = 3, narrow: bool = False
) -> Iterator[Monitor]:
    """Classes or a number by a table, epochs whose last batch is smaller, one cycle of rates."""
    model: Any = Tabular([5, 12, 30], 6, hidden, classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, 0.99))
    categories = torch.stack([torch.randint(n, (400,)) for n in (5, 12, 30)], 1)
    numbers = torch.randn(400, 6) * torch.tensor([1, 2, 5, 0.5, 1, 3]) + 1
    score = categories[:, 0] + numbers[:, 0] * 2
    target = (score - score.mean()) / score.std()
    rank = score.argsort().argsort()
    labels = rank * classes // 400
    batches = -(-400 // samples)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=20 * batches)
    model, step = taiyi_fx.instrument(model, optimizer=optimizer), 0
    for _ in range(min(20, 300 // batches)):
        model.train()
        for rows in torch.randperm(400).split(samples):
            with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
                out = model(categories[rows], numbers[rows])
            if classes == 1:
                loss = F.mse_loss(out.squeeze(1).float(), target[rows])
            else:
                loss = F.cross_entropy(out.float(), labels[rows])
            optimizer.zero_grad()
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            scheduler.step()
            step += 1
            yield model.monitor
        model.eval()
        with torch.no_grad():
            model(categories[:100], numbers[:100])


def perceptron(inputs: int, hidden: int, outputs: int, layers: int = 2) -> nn.Sequential:
    """Layers with ReLUs between."""
    widths = [inputs, *[hidden] * layers]
    parts = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*parts, nn.Linear(hidden, outputs))


@sound({}, {"samples": 1}, {"samples": 5, "hidden": 5})
def quantiles(samples: int = 64, hidden: int = 48) -> Iterator[Monitor]:
    """Three quantiles of what comes next in a series, by the pinball loss."""
    model: Any = perceptron(20, hidden, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    levels = torch.tensor([0.1, 0.5, 0.9])
    for step in range(250):
        series = waves(samples, 21)
        error = series[:, 20:] - model(series[:, :20])
        loss = torch.maximum(levels * error, (levels - 1) * error).sum(1).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class NBeatsBlock(nn.Module):
    """Layers that tell what was, and what comes."""

    def __init__(self, before: int, ahead: int, hidden: int) -> None:
        super().__init__()
        self.fc = perceptron(before, hidden, hidden, 3)
        self.backcast = nn.Linear(hidden, before, bias=False)
        self.forecast = nn.Linear(hidden, ahead, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What is left of the series, and the forecast."""
        y = F.relu(self.fc(x))
        return x - self.backcast(y), self.forecast(y)


class NBeats(nn.Module):
    """Blocks of which each gets what those before it left (arXiv 1905.10437)."""

    def __init__(self, before: int, ahead: int, hidden: int, blocks: int) -> None:
        super().__init__()
        self.ahead = ahead
        self.blocks = nn.ModuleList(NBeatsBlock(before, ahead, hidden) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        """Of (samples, ahead)."""
        found = x.new_zeros(len(x), self.ahead)
        for block in self.blocks:
            x, forecast = block(x)
            found = found + forecast
        return found


@sound({}, {"samples": 24, "hidden": 24})
def n_beats(samples: int = 32, hidden: int = 32) -> Iterator[Monitor]:
    """N-BEATS by SMAPE-like absolute errors."""
    model: Any = NBeats(24, 6, hidden, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(150):
        series = waves(samples, 30)
        loss = F.l1_loss(model(series[:, :24]), series[:, 24:])
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Tasks(nn.Module):
    """A trunk and a head for each task."""

    def __init__(self, heads: dict[str, int]) -> None:
        super().__init__()
        self.trunk = nn.Sequential(perceptron(12, 48, 48), nn.ReLU())
        self.heads = nn.ModuleDict({name: nn.Linear(48, n) for name, n in heads.items()})
        self.log_vars = nn.ParameterDict({name: torch.zeros(()) for name in heads})

    def forward(self, x: Tensor, of: str) -> Tensor:
        """What one head says."""
        return self.heads[of](self.trunk(x))


@sound({}, {"together": True})
def several_tasks(together: bool = False) -> Iterator[Monitor]:
    """Three tasks, of which each batch is of one, or all with weights that are learnt."""
    model: Any = Tasks({"sign": 2, "place": 5, "sum": 1})
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(200):
        x = torch.randn(32, 12)
        truth = {"sign": (x[:, 0] > 0).long(), "place": x[:, :5].argmax(1), "sum": x.sum(1)}
        names = list(truth) if together else [list(truth)[step % 3]]
        losses = []
        for name in names:
            out = model(x, name)
            if name == "sum":
                loss = F.mse_loss(out.squeeze(1), truth[name])
            else:
                loss = F.cross_entropy(out, truth[name])
            model.monitor.log(f"{name}_loss", loss)
            weight = model.log_vars[name]
            losses.append(loss * torch.exp(-weight) + weight if together else loss)
        loss = torch.stack(losses).sum()
        model.monitor.log("loss", loss)
        optimizer.zero_grad()
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


@sound({}, {"of": "ema"})
def averaged_weights(of: str = "swa") -> Iterator[Monitor]:
    """Weights averaged by torch's swa_utils, evaluated between, BatchNorm updated at the end."""
    model: Any = nn.Sequential(
        nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.BatchNorm1d(64),
        nn.ReLU(), nn.Linear(64, 5)
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99) if of == "ema" else None)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 150)
    swa = SWALR(optimizer, anneal_strategy="linear", anneal_epochs=5, swa_lr=0.05)
    teacher = torch.randn(16, 5)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(220):
        x = torch.randn(64, 16)
        loss = F.cross_entropy(model(x), (x @ teacher).argmax(1))
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        if of == "ema" or step > 150:
            average.update_parameters(model)
        (swa if of == "swa" and step > 150 else cosine).step()
        if step % 50 == 49:
            model.eval()
            with torch.no_grad():
                model.monitor.log("loss", F.cross_entropy(model(x), (x @ teacher).argmax(1)))
            model.train()
        yield model.monitor
    update_bn([torch.randn(64, 16) for _ in range(5)], average)


@sound()
def curve_by_lbfgs() -> Iterator[Monitor]:
    """A small network fitted to a curve by LBFGS, the whole data set at each step."""
    model: Any = nn.Sequential(
        nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1)
    )
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, history_size=10)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    x = torch.linspace(-2, 2, 100).unsqueeze(1)
    y = torch.sin(3 * x) + 0.02 * torch.randn_like(x)
    for step in range(80):

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        model.monitor.log("loss", loss)
        model.monitor.track(step)
        yield model.monitor


@sound({}, {"samples": 400}, {"fp16": True})
def house_prices(samples: int = 50, fp16: bool = False) -> Iterator[Monitor]:
    """A regression of a standardised target by SGD with momentum; in float16 with a scaler."""
    model: Any = perceptron(8, 64, 1, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=fp16)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    x = torch.randn(400, 8)
    y = (x[:, 0] * x[:, 1] + x[:, 2]).unsqueeze(1)
    y, step = (y - y.mean()) / y.std(), 0
    for _ in range(200 * samples // 400 or 1):
        for rows in torch.randperm(400).split(samples):
            with torch.autocast("cpu", torch.float16, enabled=fp16):
                out = model(x[rows])
            loss = F.smooth_l1_loss(out.float(), y[rows])
            optimizer.zero_grad()
            model.monitor.log("loss", loss)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            model.monitor.track(step, grad_scale=scaler if fp16 else None)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            scaler.step(optimizer)
            scaler.update()
            step += 1
            yield model.monitor
