"""Autoencoders and diffusion."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.edits import anew
from benchmarks.faults.training import Training


class _Autoencoder(nn.Module):
    """A variational autoencoder of digits.

    Args:
        is_cut: Whether what is drawn has no gradient.
    """

    def __init__(self, *, is_cut: bool = False) -> None:
        super().__init__()
        self.is_cut, self.encoder = is_cut, nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.mean, self.logvar = nn.Linear(64, 6), nn.Linear(64, 6)
        self.decoder = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pixels of (batch, 64), and means and logarithms of variances of (batch, 6)."""
        x = self.encoder(x.flatten(1))
        mean, logvar = self.mean(x), self.logvar(x)
        drawn = mean + (logvar / 2).exp() * torch.randn_like(mean)
        return self.decoder(drawn.detach() if self.is_cut else drawn), mean, logvar


def _encode(t: Training, model: nn.Module, weight: float) -> None:
    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        made, mean, logvar = model(x)
        apart = (mean.square() + logvar.exp() - logvar - 1).sum(1).mean() / 2
        loss = F.mse_loss(made, x.flatten(1)) + weight * apart
        loss.backward()
        return loss

    anew(t, model, backward, 3e-3)
    t.steps = 150


@fault("cnn", "mean", "logvar", "decoder.0", WHOLE, kinds="plateau|collapse")
def divergence_summed_where_the_error_is_averaged(t: Training) -> None:
    """A divergence that outweighs the pixels a thousand times, so that the code is noise alone."""
    _encode(t, _Autoencoder(), 10.0)


@fault("cnn", "encoder*", "mean", "logvar", kinds="detached|missing_gradient|plateau")
def codes_drawn_without_their_gradient(t: Training) -> None:
    """A sample of a distribution that no gradient comes back through."""
    _encode(t, _Autoencoder(is_cut=True), 1e-3)


@fault("cnn", "logvar", WHOLE, kinds="non_finite|wild_start")
def logarithm_of_a_variance_without_bounds(t: Training) -> None:
    """A layer so large at first that the exponential of it is infinite."""
    model = _Autoencoder()
    model.logvar.weight.data *= 1000
    _encode(t, model, 1e-3)


class _Denoiser(nn.Module):
    """Predicts the noise of a row at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(17, 96), nn.Linear(96, 96)
        self.head = nn.Linear(96, 16)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Noise of (batch, 16)."""
        x = torch.cat([x, time[:, None]], 1)
        return self.head(F.silu(self.second(F.silu(self.first(x)))))


def _denoise(t: Training, *, times: float = 1.0, is_same: bool = True, power: float = 1.0) -> None:
    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        x = x[:, :2].repeat(1, 8)
        time = torch.rand(len(x))
        noise, kept = torch.randn_like(x), (1 - time[:, None]) ** power
        noisy = kept.sqrt() * x + (1 - kept).sqrt() * noise
        told = noise if is_same else torch.randn_like(x)
        loss = F.mse_loss(model(noisy, times * time), told)
        loss.backward()
        return loss

    anew(t, _Denoiser(), backward, 3e-3)
    t.steps = 150


@fault("mlp", "first", WHOLE, kinds="input|wild_start")
def time_as_a_raw_number(t: Training) -> None:
    """Times up to a thousand that stand beside standardised numbers."""
    _denoise(t, times=1000.0)


@fault("mlp", WHOLE, kinds="plateau")
def noise_that_was_not_the_one_added(t: Training) -> None:
    """A second draw of the noise, of which the first tells nothing."""
    _denoise(t, is_same=False)
