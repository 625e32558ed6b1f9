"""Mistakes in what makes samples: autoencoders, codebooks and diffusion."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.own.codebook import VQVAE, VectorQuantizer, quantized, vq_error
from benchmarks.faults.own.diffusion import Denoiser, diffuse
from benchmarks.faults.own.digits import standardized
from benchmarks.faults.own.training import Figure, train
from benchmarks.faults.training import Training


class Autoencoder(nn.Module):
    """An autoencoder for flat digits.

    Args:
        last: What comes behind its last layer.
    """

    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))
        self.decoder = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 64), last)

    def forward(self, x: Tensor) -> Tensor:
        """Digits of the same shape."""
        return self.decoder(self.encoder(x))


@fault("cnn", "decoder.2", "decoder.3", kinds="^squashed_loss|saturated")
def decoder_that_cannot_be_negative(t: Training, *, mended: bool = False) -> None:
    """Inputs are standardised and the decoder ends in a sigmoid: half of them is out of reach.

    mikesj-public/convolutional_autoencoder#9, AntixK/PyTorch-VAE#48, aimagelab/novelty-detection#5
    """
    net = Autoencoder(nn.Identity() if mended else nn.Sigmoid())
    train(t, net, lambda net, x, y: F.mse_loss(net(x), y), standardized, lr=3e-3)


@fault("cnn", "vq*", kinds="detached|missing_gradient|zero_gradient|no_update")
def codebook_loss_of_what_is_straight_through(t: Training, *, mended: bool = False) -> Figure:
    """The codebook has no gradient: its loss is of x + (z - x).detach().

    showlab/Olaf-World#8, andylolu2/jax-vqvae-gpt#2, EdoardoBotta/RQ-VAE-Recommender#26
    """
    train(t, VQVAE(partial(VectorQuantizer, own=mended)), quantized, standardized, lr=3e-3)
    t.steps = 200
    return vq_error


@fault("cnn", WHOLE, "inp", kinds="non_finite|wild_input")
def betas_above_one(t: Training, *, mended: bool = False) -> None:
    """NaN from q_sample with 10 steps: a linear schedule scaled by 1000 / timesteps.

    lucidrains/imagen-pytorch#161, LTH14/mar#70
    """
    timesteps = 100 if mended else 10
    scale = 1000 / timesteps
    diffuse(t, Denoiser(), torch.linspace(scale * 0.0001, scale * 0.02, timesteps))


@fault("cnn", "time_mlp*", kinds="repeated_input|rank_collapse")
def size_of_the_batch_as_the_time(t: Training, *, mended: bool = False) -> None:
    """The scheduler is handed the batch size, and the network is told it as the time.

    Stability-AI/StableCascade#142
    """
    diffuse(t, Denoiser(timed=mended), torch.linspace(0.001, 0.2, 50))
