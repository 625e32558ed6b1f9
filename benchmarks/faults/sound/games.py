"""Games of two: GANs of pictures with their losses, norms and penalties."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import spectral_norm

import taiyi_fx
from benchmarks.faults.sound.pictures import digits, patches
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


def dcgan_start(module: nn.Module) -> None:
    """The tutorial's weights."""
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


def generator(latent: int, width: int) -> nn.Sequential:
    """DCGAN's, to 8 pixels."""
    return nn.Sequential(
        nn.ConvTranspose2d(latent, 2 * width, 2, 1, 0, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(True),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(True),
        nn.ConvTranspose2d(width, 1, 4, 2, 1, bias=False),
        nn.Tanh(),
    )


def discriminator(width: int, kind: str) -> nn.Sequential:
    """DCGAN's; with spectral norms for the hinge, without batch norms for the penalty."""
    wrap = spectral_norm if kind == "hinge" else (lambda layer: layer)
    norm: Any = nn.BatchNorm2d if kind in ("dcgan", "lsgan") else (lambda _: nn.Identity())
    return nn.Sequential(
        wrap(nn.Conv2d(1, width, 4, 2, 1)),
        nn.LeakyReLU(0.2, True),
        wrap(nn.Conv2d(width, 2 * width, 4, 2, 1)),
        norm(2 * width),
        nn.LeakyReLU(0.2, True),
        wrap(nn.Conv2d(2 * width, 1, 2, 1, 0)),
        nn.Flatten(0),
    )


@sound(
    {"kind": "dcgan"},
    {"kind": "lsgan"},
    {"kind": "hinge"},
    {"kind": "wgan_gp"},
    {"kind": "dcgan", "size": 16, "width": 16},
)
def gan_of_digits(kind: str, size: int = 32, width: int = 24) -> Iterator[Monitor]:
    """Torch's DCGAN tutorial, LSGAN, the hinge loss with spectral norm, and WGAN-GP."""
    x = digits()[0] * 2 - 1
    both: Any = nn.ModuleDict({"netG": generator(16, width), "netD": discriminator(width, kind)})
    if kind in ("dcgan", "lsgan"):
        both.apply(dcgan_start)
    beta = (0.5, 0.999) if kind in ("dcgan", "lsgan") else (0.0, 0.9)
    of_d = torch.optim.Adam(both["netD"].parameters(), lr=2e-4, betas=beta)
    of_g = torch.optim.Adam(both["netG"].parameters(), lr=2e-4, betas=beta)
    both = taiyi_fx.instrument(both, optimizer=[of_d, of_g])
    net_g, net_d = both["netG"], both["netD"]
    for step in range(120):
        real, noise = x[torch.randint(len(x), (size,))], torch.randn(size, 16, 1, 1)
        of_d.zero_grad()
        fake = net_g(noise)
        on_real, on_fake = net_d(real), net_d(fake.detach())
        if kind == "dcgan":
            loss_d = F.binary_cross_entropy_with_logits(on_real, torch.ones(size))
            loss_d = loss_d + F.binary_cross_entropy_with_logits(on_fake, torch.zeros(size))
        elif kind == "lsgan":
            loss_d = 0.5 * ((on_real - 1) ** 2).mean() + 0.5 * (on_fake**2).mean()
        elif kind == "hinge":
            loss_d = F.relu(1 - on_real).mean() + F.relu(1 + on_fake).mean()
        else:
            mixed = torch.lerp(real, fake.detach(), torch.rand(size, 1, 1, 1)).requires_grad_()
            (slope,) = torch.autograd.grad(net_d(mixed).sum(), mixed, create_graph=True)
            loss_d = (
                on_fake.mean()
                - on_real.mean()
                + 10 * ((slope.flatten(1).norm(dim=1) - 1) ** 2).mean()
            )
        both.monitor.log("loss_d", loss_d)
        loss_d.backward()
        of_d.step()
        if kind != "wgan_gp" or step % 5 == 0:
            of_g.zero_grad()
            judged = net_d(fake)
            if kind == "dcgan":
                loss_g = F.binary_cross_entropy_with_logits(judged, torch.ones(size))
            elif kind == "lsgan":
                loss_g = 0.5 * ((judged - 1) ** 2).mean()
            else:
                loss_g = -judged.mean()
            both.monitor.log("loss_g", loss_g)
            loss_g.backward()
            both.monitor.track(step)
            of_g.step()
        else:
            both.monitor.track(step)
        yield both.monitor


class Residual(nn.Module):
    """CycleGAN's block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(width, width, 3),
            nn.InstanceNorm2d(width),
            nn.ReLU(True),
            nn.ReflectionPad2d(1),
            nn.Conv2d(width, width, 3),
            nn.InstanceNorm2d(width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Features."""
        return x + self.block(x)


def translator(width: int, blocks: int) -> nn.Sequential:
    """CycleGAN's generator."""
    return nn.Sequential(
        nn.Conv2d(3, width, 7, padding=3),
        nn.InstanceNorm2d(width),
        nn.ReLU(True),
        nn.Conv2d(width, 2 * width, 3, 2, 1),
        nn.InstanceNorm2d(2 * width),
        nn.ReLU(True),
        *(Residual(2 * width) for _ in range(blocks)),
        nn.ConvTranspose2d(2 * width, width, 3, 2, 1, output_padding=1),
        nn.InstanceNorm2d(width),
        nn.ReLU(True),
        nn.Conv2d(width, 3, 7, padding=3),
        nn.Tanh(),
    )


def patch_judge(width: int, channels: int = 3) -> nn.Sequential:
    """A PatchGAN."""
    return nn.Sequential(
        nn.Conv2d(channels, width, 4, 2, 1),
        nn.LeakyReLU(0.2, True),
        nn.Conv2d(width, 2 * width, 4, 2, 1),
        nn.InstanceNorm2d(2 * width),
        nn.LeakyReLU(0.2, True),
        nn.Conv2d(2 * width, 1, 3, padding=1),
    )


@sound()
def cycle_gan() -> Iterator[Monitor]:
    """CycleGAN: two generators and two judges, losses of cycles and identity, batches of one."""
    x = patches(16)[:400] * 2 - 1
    other = x.flip(1)
    nets: Any = nn.ModuleDict(
        {
            "G_A": translator(8, 2),
            "G_B": translator(8, 2),
            "D_A": patch_judge(8),
            "D_B": patch_judge(8),
        }
    )
    for module in nets.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(module.weight, 0.0, 0.02)
    of_g = torch.optim.Adam(
        [*nets["G_A"].parameters(), *nets["G_B"].parameters()], lr=2e-4, betas=(0.5, 0.999)
    )
    of_d = torch.optim.Adam(
        [*nets["D_A"].parameters(), *nets["D_B"].parameters()], lr=2e-4, betas=(0.5, 0.999)
    )
    nets = taiyi_fx.instrument(nets, optimizer=[of_g, of_d])
    for step in range(60):
        a, b = x[torch.randint(400, (1,))], other[torch.randint(400, (1,))]
        fake_b, fake_a = nets["G_A"](a), nets["G_B"](b)
        nets["D_A"].requires_grad_(False)
        nets["D_B"].requires_grad_(False)
        of_g.zero_grad()
        loss_g = F.mse_loss(nets["D_A"](fake_b), torch.ones(1, 1, 4, 4)) + F.mse_loss(
            nets["D_B"](fake_a), torch.ones(1, 1, 4, 4)
        )
        loss_g = loss_g + 10 * (
            F.l1_loss(nets["G_B"](fake_b), a) + F.l1_loss(nets["G_A"](fake_a), b)
        )
        loss_g = loss_g + 5 * (F.l1_loss(nets["G_A"](b), b) + F.l1_loss(nets["G_B"](a), a))
        nets.monitor.log("loss_G", loss_g)
        loss_g.backward()
        of_g.step()
        nets["D_A"].requires_grad_(True)
        nets["D_B"].requires_grad_(True)
        of_d.zero_grad()
        loss_d = torch.zeros(())
        for judge, real, fake in (("D_A", b, fake_b), ("D_B", a, fake_a)):
            on_real, on_fake = nets[judge](real), nets[judge](fake.detach())
            loss_d = loss_d + 0.5 * (
                F.mse_loss(on_real, torch.ones_like(on_real)) + (on_fake**2).mean()
            )
        nets.monitor.log("loss_D", loss_d)
        loss_d.backward()
        nets.monitor.track(step)
        of_d.step()
        yield nets.monitor


class Equalized(nn.Module):
    """A linear layer of normal weights that are scaled as it runs (arXiv 1710.10196)."""

    def __init__(self, before: int, after: int, rate: float = 1.0, bias: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(after, before) / rate)
        self.bias = nn.Parameter(torch.full((after,), bias))
        self.gain, self.rate = rate / math.sqrt(before), rate

    def forward(self, x: Tensor) -> Tensor:
        """Rows."""
        return F.linear(x, self.weight * self.gain, self.bias * self.rate)


class Styled(nn.Module):
    """StyleGAN2's convolution, modulated and demodulated, with noise."""

    def __init__(self, before: int, after: int, latent: int) -> None:
        super().__init__()
        self.affine = Equalized(latent, before, bias=1.0)
        self.weight = nn.Parameter(torch.randn(after, before, 3, 3))
        self.bias = nn.Parameter(torch.zeros(after))
        self.noise_strength = nn.Parameter(torch.zeros([]))

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        """Features."""
        n, c, height, width = x.shape
        weight = self.weight[None] * self.affine(w)[:, None, :, None, None]
        weight = weight * (weight.square().sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()
        x = F.conv2d(x.reshape(1, n * c, height, width), weight.flatten(0, 1), padding=1, groups=n)
        x = x.view(n, -1, height, width) + self.noise_strength * torch.randn(n, 1, height, width)
        return F.leaky_relu(x + self.bias[:, None, None], 0.2) * math.sqrt(2)


class Style(nn.Module):
    """A mapping with a hundredth of the rate, and a synthesis of a constant."""

    def __init__(self, latent: int, width: int, depth: int) -> None:
        super().__init__()
        self.mapping = nn.ModuleList(Equalized(latent, latent, rate=0.01) for _ in range(depth))
        self.const = nn.Parameter(torch.randn(1, width, 4, 4))
        self.conv0, self.conv1 = Styled(width, width, latent), Styled(width, width, latent)
        self.to_rgb = nn.Conv2d(width, 1, 1)

    def forward(self, z: Tensor) -> Tensor:
        """Pictures."""
        w = z * (z.square().mean(1, keepdim=True) + 1e-8).rsqrt()
        for layer in self.mapping:
            w = F.leaky_relu(layer(w), 0.2) * math.sqrt(2)
        x = self.conv0(self.const.expand(len(z), -1, -1, -1), w)
        return self.to_rgb(self.conv1(F.interpolate(x, scale_factor=2.0), w))


@sound({}, {"size": 32, "latent": 32})
def style_gan(size: int = 16, latent: int = 24) -> Iterator[Monitor]:
    """StyleGAN2: a mapping, equalized rates, the softplus loss, and R1 every eighth step."""
    x = digits()[0] * 2 - 1
    model: Any = nn.ModuleDict({"G": Style(latent, 24, 4), "D": discriminator(24, "style")})
    of_g = torch.optim.Adam(model["G"].parameters(), lr=2e-3, betas=(0.0, 0.99), eps=1e-8)
    of_d = torch.optim.Adam(model["D"].parameters(), lr=2e-3, betas=(0.0, 0.99), eps=1e-8)
    model = taiyi_fx.instrument(model, optimizer=[of_g, of_d])
    for step in range(100):
        model["D"].requires_grad_(False)
        fake = model["G"](torch.randn(size, latent))
        loss_g = F.softplus(-model["D"](fake)).mean()
        model.monitor.log("Loss/G/loss", loss_g)
        of_g.zero_grad(set_to_none=True)
        loss_g.backward()
        of_g.step()
        model["D"].requires_grad_(True)
        real = x[torch.randint(len(x), (size,))].requires_grad_(step % 8 == 0)
        on_real = model["D"](real)
        loss_d = F.softplus(-on_real).mean() + F.softplus(model["D"](fake.detach())).mean()
        if step % 8 == 0:
            (slope,) = torch.autograd.grad(on_real.sum(), real, create_graph=True)
            loss_d = loss_d + 8 * 0.5 * slope.square().sum((1, 2, 3)).mean()
        model.monitor.log("Loss/D/loss", loss_d)
        of_d.zero_grad(set_to_none=True)
        loss_d.backward()
        model.monitor.track(step)
        of_d.step()
        yield model.monitor
