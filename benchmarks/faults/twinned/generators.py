"""Faults of models that make points and pictures: noise, conditions, densities and coordinates.

Threads: Layne-Huang/PMDM#15, munshisanowarraihan/nerf-meta#3, kwea123/nerf_pl#39.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training
from benchmarks.faults.twinned.decisions import layers
from benchmarks.faults.twinned.twin import Loss, set_up

_TIMES = 50


class Denoiser(nn.Module):
    """Tells the noise in points of a ring, by the time and by which half they are of."""

    def __init__(self) -> None:
        super().__init__()
        self.times, self.halves = nn.Embedding(_TIMES, 32), nn.Embedding(3, 32)
        self.enter, self.body = nn.Linear(2, 32), layers(32, 64, 64, 2, act=nn.SiLU)

    def forward(self, x: Tensor, time: Tensor, half: Tensor) -> Tensor:
        """The noise of (batch, 2)."""
        return self.body(self.enter(x) + self.times(time) + self.halves(half))


def _points(step: int) -> Batch:
    _, points = data.ring(step, 256)
    return points, (points[:, 0] > 0).long()


def _kept() -> Tensor:
    return (1 - torch.linspace(1e-3, 0.2, _TIMES)).cumprod(0)


def _noised(x: Tensor, kept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Points with noise, the noise and the times."""
    time = torch.randint(_TIMES, (len(x),))
    noise, share = torch.randn_like(x), kept[time].unsqueeze(1)
    return share.sqrt() * x + (1 - share).sqrt() * noise, noise, time


def _told(model: nn.Module, x: Tensor, half: Tensor) -> Tensor:
    noised, noise, time = _noised(x, _kept())
    return F.mse_loss(model(noised, time, half), noise)


@fault("gan", WHOLE, kinds="loss|target|trivial|copy|leak")
def noised_points_as_what_is_to_be_told(t: Training, *, is_mended: bool = False) -> Loss:
    """Compares what the network tells with its own input, where the noise alone was meant."""

    def loss(model: nn.Module, x: Tensor, half: Tensor) -> Tensor:
        noised, noise, time = _noised(x, _kept())
        return F.mse_loss(model(noised, time, half), noise if is_mended else noised)

    return set_up(t, Denoiser(), _points, loss, _told)


@fault("gan", WHOLE, kinds="loss|repeat|noise|trivial|seed|input")
def random_numbers_begun_anew_in_each_step(t: Training, *, is_mended: bool = False) -> Loss:
    """Sets the seed within the loop, so that times and noise are the same in each step."""

    def loss(model: nn.Module, x: Tensor, half: Tensor) -> Tensor:
        if not is_mended:
            torch.manual_seed(42)
        return _told(model, x, half)

    return set_up(t, Denoiser(), _points, loss, _told, steps=200)


@fault("gan", WHOLE, "enter", kinds="nan|finite|inf|root")
def sum_of_shares_in_place_of_their_product(t: Training, *, is_mended: bool = False) -> Loss:
    """Adds up what each time keeps, of which the rest is then below zero."""
    shares = 1 - torch.linspace(1e-3, 0.2, _TIMES)
    kept = shares.cumprod(0) if is_mended else shares.cumsum(0)

    def loss(model: nn.Module, x: Tensor, half: Tensor) -> Tensor:
        noised, noise, time = _noised(x, kept)
        return F.mse_loss(model(noised, time, half), noise)

    return set_up(t, Denoiser(), _points, loss, _told)


@fault("gan", WHOLE, "halves", kinds="embedding|constant|rank|condition|drop|loss")
def condition_that_is_always_dropped(t: Training, *, is_mended: bool = False) -> Loss:
    """Drops the condition with the probability with which it was to be kept, which is 1."""

    def loss(model: nn.Module, x: Tensor, half: Tensor) -> Tensor:
        is_dropped = torch.rand(len(x)) < (0.1 if is_mended else 1.0)
        return _told(model, x, half.where(~is_dropped, 2))

    return set_up(t, Denoiser(), _points, loss, _told, steps=200)


class Field(nn.Module):
    """A density along rays, which is added up to how dark a ray is.

    Args:
        is_soft: Whether the density is never quite 0.
    """

    def __init__(self, *, is_soft: bool) -> None:
        super().__init__()
        self.is_soft = is_soft
        self.body = layers(12, 64, 64, 1)
        nn.init.constant_(self.body.get_parameter("4.bias"), -1.0)

    def forward(self, x: Tensor) -> Tensor:
        """The darkness of (batch,), of points of (batch, places, 2)."""
        turns = torch.cat([x * math.pi * 2**i for i in range(3)], -1)
        raw = self.body(torch.cat([turns.sin(), turns.cos()], -1))
        density = F.softplus(raw) if self.is_soft else F.relu(raw)
        return 1 - (-density.sum((1, 2)) / 2).exp()


def _rays(step: int) -> Batch:
    """Points of rays through a disc, and how long they are within it."""
    generator = torch.Generator().manual_seed(step)
    height = torch.rand(128, generator=generator) * 2 - 1
    along = torch.linspace(-1, 1, 16)
    x = torch.stack(torch.broadcast_tensors(along, height.unsqueeze(1)), -1)
    inside = (x.norm(dim=-1) < 0.5).float().sum(1)
    return x, 1 - (-inside / 4).exp()


def _squared(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(model(x), y)


@fault("mlp", WHOLE, "body*", kinds="dead|zero|relu|gradient|loss|plateau")
def density_that_begins_dead(t: Training, *, is_mended: bool = False) -> Loss:
    """Cuts the density off at 0 by a ReLU, below which it begins everywhere."""
    return set_up(t, Field(is_soft=is_mended), _rays, _squared, rate=1e-3)


class Picture(nn.Module):
    """The grey of a place of a picture.

    Args:
        is_encoded: Whether it is given sines of the coordinates, too.
    """

    def __init__(self, *, is_encoded: bool) -> None:
        super().__init__()
        self.is_encoded = is_encoded
        self.body = layers(26 if is_encoded else 2, 64, 64, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Greys of (batch,)."""
        if self.is_encoded:
            turns = [x * math.pi * 2**i for i in range(6)]
            x = torch.cat([x, *(turn.sin() for turn in turns), *(turn.cos() for turn in turns)], -1)
        return self.body(x).squeeze(-1)


def _greys(step: int) -> Batch:
    x = torch.rand(256, 2, generator=torch.Generator().manual_seed(step)) * 2 - 1
    return x, (12 * x[:, 0]).sin() * (9 * x[:, 1]).cos()


@fault("mlp", WHOLE, "body*", kinds="loss|plateau|input|coordinate|rank")
def coordinates_as_they_are(t: Training, *, is_mended: bool = False) -> Loss:
    """Gives a network the coordinates alone, of which it learns no fine patterns."""
    return set_up(t, Picture(is_encoded=is_mended), _greys, _squared, steps=200)
