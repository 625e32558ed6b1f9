"""Models that make pictures and points: autoencoders, flows, diffusion, and games of two."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx
from benchmarks.faults.sound.pictures import batches, digits, patches
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


class Vae(nn.Module):
    """The VAE of torch's examples; with classes, a conditional one."""

    def __init__(self, hidden: int = 128, latent: int = 10, classes: int = 0) -> None:
        super().__init__()
        self.fc1 = nn.Linear(64 + classes, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent + classes, hidden)
        self.fc4 = nn.Linear(hidden, 64)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A picture made anew, and the mean and the logarithm of the variance of its code."""
        h = F.relu(self.fc1(torch.cat([x.flatten(1), y], 1)))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(torch.cat([z, y], 1))))), mu, logvar


@sound({}, {"beta": 4.0}, {"classes": 10}, {"size": 10, "latent": 10, "hidden": 64})
def vae(
    beta: float = 1.0, classes: int = 0, size: int = 128, latent: int = 10, hidden: int = 128
) -> Iterator[Monitor]:
    """Torch's example of a VAE, whose loss is a sum over the batch; beta-VAE; conditional."""
    x, y = digits()
    model: Any = Vae(hidden, latent, classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    for _ in range(14 if size > 10 else 2):
        for data, label in batches(size, x, y):
            optimizer.zero_grad()
            known = F.one_hot(label, 10).float()[:, :classes]
            made, mu, logvar = model(data, known)
            bce = F.binary_cross_entropy(made, data.flatten(1), reduction="sum")
            kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
            loss = bce + beta * kld
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            step += 1
            yield model.monitor


def down(width: int) -> nn.Sequential:
    """An encoder by strides."""
    return nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(2 * width, 2 * width, 3, padding=1),
    )


def up(width: int) -> nn.Sequential:
    """A decoder by transposed convolutions."""
    return nn.Sequential(
        nn.ConvTranspose2d(2 * width, 2 * width, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(width, 3, 3, padding=1),
    )


class Denoiser(nn.Module):
    """A convolutional autoencoder."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.encoder, self.decoder = down(width), up(width)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The picture, and its code."""
        code = F.relu(self.encoder(x))
        return self.decoder(code), code


@sound({}, {"sparsity": 1e-3}, {"size": 1})
def autoencoder(sparsity: float = 0.0, size: int = 16) -> Iterator[Monitor]:
    """A denoising autoencoder of photographs; with an L1 of its code, a sparse one."""
    x = patches()[:, :, ::2, ::2].contiguous()
    model: Any = Denoiser(16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    for _ in range(12 if size > 1 else 1):
        for (clean,) in batches(size, x):
            made, code = model((clean + 0.2 * torch.randn_like(clean)).clamp(0, 1))
            loss = F.mse_loss(made, clean) + sparsity * code.abs().mean()
            optimizer.zero_grad()
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            step += 1
            yield model.monitor


class Quantizer(nn.Module):
    """A codebook with a straight-through gradient, learnt by its loss or by averages."""

    def __init__(self, codes: int, width: int, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.embedding = nn.Embedding(codes, width)
        self.embedding.weight.data.uniform_(-1 / codes, 1 / codes)
        if decay:
            self.embedding.requires_grad_(False)
            self.register_buffer("counts", torch.ones(codes))
            self.register_buffer("sums", self.embedding.weight.detach().clone())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The nearest codes, and the loss of being far from them."""
        rows = x.permute(0, 2, 3, 1)
        flat = rows.reshape(-1, rows.shape[-1])
        weight = self.embedding.weight
        far = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ weight.T + weight.pow(2).sum(1)
        chosen = far.argmin(1)
        if self.decay and self.training:
            hot = F.one_hot(chosen, len(weight)).float()
            with torch.no_grad():
                self.counts.lerp_(hot.sum(0), 1 - self.decay)
                self.sums.lerp_(hot.T @ flat, 1 - self.decay)
                n = self.counts.sum()
                smoothed = (self.counts + 1e-5) / (n + len(weight) * 1e-5) * n
                weight.copy_(self.sums / smoothed[:, None])
        quantized = self.embedding(chosen).view_as(rows)
        loss = 0.25 * F.mse_loss(quantized.detach(), rows)
        if not self.decay:
            loss = loss + F.mse_loss(quantized, rows.detach())
        return (rows + (quantized - rows).detach()).permute(0, 3, 1, 2), loss


class VqVae(nn.Module):
    """VQ-VAE (arXiv 1711.00937)."""

    def __init__(self, width: int, codes: int, decay: float) -> None:
        super().__init__()
        self.encoder, self.quantizer, self.decoder = (
            down(width),
            Quantizer(codes, 2 * width, decay),
            up(width),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The picture, and the loss of its codes."""
        quantized, loss = self.quantizer(self.encoder(x))
        return self.decoder(quantized), loss


@sound({})
def vq_vae(decay: float = 0.99, codes: int = 64, width: int = 16) -> Iterator[Monitor]:
    """A codebook that learns by its loss, or by a moving average of what chose it."""
    x = patches()[:, :, ::2, ::2] - 0.5
    model: Any = VqVae(width, codes, decay)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-4)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    for _ in range(16):
        for (data,) in batches(16, x):
            made, of_codes = model(data)
            loss = F.mse_loss(made, data) / 0.06 + of_codes
            optimizer.zero_grad()
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            step += 1
            yield model.monitor


class Coupling(nn.Module):
    """An affine coupling of RealNVP, whose last layer begins at zero."""

    def __init__(self, width: int, hidden: int, flip: bool) -> None:
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(
            nn.Linear(width // 2, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, width),
        )
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What is made of rows, and the logarithm of the volume's change."""
        a, b = x.chunk(2, 1)
        if self.flip:
            a, b = b, a
        scale, shift = self.net(a).chunk(2, 1)
        scale = torch.tanh(scale)
        b = b * scale.exp() + shift
        return torch.cat([b, a] if self.flip else [a, b], 1), scale.sum(1)


class ActNorm(nn.Module):
    """Glow's norm, which the first batch sets."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.loc, self.log_scale = (
            nn.Parameter(torch.zeros(width)),
            nn.Parameter(torch.zeros(width)),
        )
        self.register_buffer("is_set", torch.tensor(False))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Normalised rows, and the logarithm of the volume's change."""
        if not self.is_set:
            with torch.no_grad():
                self.loc.copy_(-x.mean(0))
                self.log_scale.copy_(-(x.std(0) + 1e-6).log())
                self.is_set.fill_(True)
        return (x + self.loc) * self.log_scale.exp(), self.log_scale.sum().expand(len(x))


class Rotation(nn.Module):
    """Glow's invertible matrix, which begins as a rotation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.orthogonal_(torch.empty(width, width)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Rows, and the logarithm of the volume's change."""
        return x @ self.weight, torch.linalg.slogdet(self.weight)[1].expand(len(x))


class Flow(nn.Module):
    """RealNVP, or Glow with its norms and matrices."""

    def __init__(self, width: int, hidden: int, depth: int, glow: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for i in range(depth):
            if glow:
                self.layers += [ActNorm(width), Rotation(width)]
            self.layers.append(Coupling(width, hidden, bool(i % 2)))

    def forward(self, x: Tensor) -> Tensor:
        """The logarithm of the density of each row."""
        volume = torch.zeros(len(x))
        for layer in self.layers:
            x, change = layer(x)
            volume = volume + change
        return volume - 0.5 * (x**2).sum(1) - 0.5 * x.shape[1] * math.log(2 * math.pi)


def moons(size: int) -> Tensor:
    """Points of two half circles."""
    angle, which = torch.rand(size) * math.pi, torch.randint(2, (size,)).float()
    sign = 1 - 2 * which
    points = torch.stack(
        [angle.cos() * sign + which - 0.5, angle.sin() * sign + 0.5 * which - 0.25], 1
    )
    return points + 0.05 * torch.randn(size, 2)


@sound({}, {"glow": True, "of_digits": True}, {"of_digits": True, "size": 64})
def flow(glow: bool = False, of_digits: bool = False, size: int = 256) -> Iterator[Monitor]:
    """The negative logarithm of a density, in nats or in bits a dimension; it goes below zero."""
    width = 64 if of_digits else 2
    model: Any = Flow(width, 64, 6, glow)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    every = digits()[0].flatten(1)
    for step in range(220):
        if of_digits:
            rows = every[torch.randint(len(every), (size,))]
            x = (rows * 16 + torch.rand_like(rows)) / 17 - 0.5
        else:
            x = moons(size)
        loss = -model(x).mean() / (width * math.log(2) if glow else 1)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 50.0)
        optimizer.step()
        yield model.monitor


def sinusoidal(t: Tensor, width: int) -> Tensor:
    """Sines and cosines of a time."""
    rate = torch.exp(-math.log(10000) * torch.arange(width // 2) / (width // 2))
    angle = t[:, None].float() * rate
    return torch.cat([angle.sin(), angle.cos()], 1)


class Block(nn.Module):
    """DDPM's residual block, the last convolution of which begins at zero."""

    def __init__(self, before: int, after: int, width: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, before), nn.Conv2d(before, after, 3, padding=1)
        self.time = nn.Linear(width, after)
        self.norm2, self.conv2 = nn.GroupNorm(4, after), nn.Conv2d(after, after, 3, padding=1)
        self.dropout = nn.Dropout(0.1)
        nn.init.zeros_(self.conv2.weight)
        nn.init.zeros_(self.conv2.bias)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Features."""
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(self.dropout(F.silu(self.norm2(h))))


class Unet(nn.Module):
    """DDPM's U-Net of two levels with one attention."""

    def __init__(self, width: int = 16, channels: int = 1) -> None:
        super().__init__()
        self.width = width
        self.time = nn.Sequential(
            nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width)
        )
        self.enter = nn.Conv2d(channels, width, 3, padding=1)
        self.down1 = Block(width, width, 4 * width)
        self.pool = nn.Conv2d(width, width, 3, 2, 1)
        self.down2 = Block(width, 2 * width, 4 * width)
        self.norm = nn.GroupNorm(4, 2 * width)
        self.attention = nn.MultiheadAttention(2 * width, 4, batch_first=True)
        self.mid = Block(2 * width, 2 * width, 4 * width)
        self.up2 = Block(4 * width, width, 4 * width)
        self.up1 = Block(2 * width, width, 4 * width)
        self.out = nn.Sequential(
            nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, channels, 3, padding=1)
        )
        nn.init.zeros_(self.out[-1].weight)
        nn.init.zeros_(self.out[-1].bias)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """The noise in a picture, by the time."""
        t = self.time(sinusoidal(t, self.width))
        a = self.down1(self.enter(x), t)
        b = self.down2(self.pool(a), t)
        tokens = self.norm(b).flatten(2).transpose(1, 2)
        c = b + self.attention(tokens, tokens, tokens, need_weights=False)[0].transpose(
            1, 2
        ).view_as(b)
        c = self.up2(torch.cat([self.mid(c, t), b], 1), t)
        c = F.interpolate(c, scale_factor=2.0)
        return self.out(self.up1(torch.cat([c, a], 1), t))


@sound(
    {"of": "noise"},
    {"of": "velocity"},
    {"of": "flow"},
    {"of": "score"},
    {"of": "edm"},
    {"of": "noise", "size": 4},
)
def diffusion(of: str, size: int = 32, width: int = 16) -> Iterator[Monitor]:
    """DDPM by noise or v, flow matching, score matching over sizes of noise, and EDM's weights."""
    x = digits()[0] * 2 - 1
    model: Any = Unet(width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    average = deepcopy(model).requires_grad_(False)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(60):
        data = x[torch.randint(len(x), (size,))]
        noise = torch.randn_like(data)
        if of in ("noise", "velocity"):
            t = torch.randint(1000, (size,))
            a = kept[t].view(-1, 1, 1, 1)
            noisy = a.sqrt() * data + (1 - a).sqrt() * noise
            target = noise if of == "noise" else a.sqrt() * noise - (1 - a).sqrt() * data
            loss = F.mse_loss(model(noisy, t), target)
        elif of == "flow":
            t = torch.sigmoid(torch.randn(size))
            a = t.view(-1, 1, 1, 1)
            loss = F.mse_loss(model((1 - a) * noise + a * data, 1000 * t), data - noise)
        elif of == "score":
            sigma = torch.exp(torch.empty(size, 1, 1, 1).uniform_(math.log(0.01), math.log(5.0)))
            score = model(data + sigma * noise, 250 * sigma.flatten().log()) / sigma
            loss = 0.5 * (sigma**2 * (score + noise / sigma) ** 2).sum((1, 2, 3)).mean()
        else:
            sigma = torch.exp(torch.randn(size, 1, 1, 1) * 1.2 - 1.2)
            of_data = 0.5
            weight = (sigma**2 + of_data**2) / (sigma * of_data) ** 2
            total = (sigma**2 + of_data**2).sqrt()
            inner = model((data + sigma * noise) / total, 250 * sigma.flatten().log())
            made = (data + sigma * noise) * of_data**2 / total**2 + inner * sigma * of_data / total
            loss = (weight * (made - data) ** 2).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for ours, theirs in zip(average.parameters(), model.parameters(), strict=True):
                ours.lerp_(theirs, 0.01)
        yield model.monitor


class DitBlock(nn.Module):
    """DiT's block, whose modulation begins at zero (arXiv 2212.09748)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        nn.init.zeros_(self.adaLN_modulation[-1].weight)
        nn.init.zeros_(self.adaLN_modulation[-1].bias)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        """Tokens."""
        a, b, g, d, e, h = self.adaLN_modulation(c)[:, None].chunk(6, 2)
        y = self.norm1(x) * (1 + b) + a
        x = x + g * self.attn(y, y, y, need_weights=False)[0]
        return x + h * self.mlp(self.norm2(x) * (1 + e) + d)


class Dit(nn.Module):
    """DiT of digits in patches of 2."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.width = width
        self.patch = nn.Conv2d(1, width, 2, 2)
        self.place = nn.Parameter(torch.randn(1, 16, width) * 0.02)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.label = nn.Embedding(11, width)
        nn.init.normal_(self.label.weight, std=0.02)
        self.blocks = nn.ModuleList(DitBlock(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.linear = nn.Linear(width, 4)
        for layer in (self.adaLN_modulation[-1], self.linear):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, t: Tensor, y: Tensor) -> Tensor:
        """The noise in a picture."""
        c = self.time(sinusoidal(t, self.width)) + self.label(y)
        x = self.patch(x).flatten(2).transpose(1, 2) + self.place
        for block in self.blocks:
            x = block(x, c)
        shift, scale = self.adaLN_modulation(c)[:, None].chunk(2, 2)
        x = self.linear(self.norm(x) * (1 + scale) + shift)
        return F.pixel_shuffle(x.transpose(1, 2).reshape(len(x), 4, 4, 4), 2)


@sound({}, {"size": 16, "width": 16, "heads": 4}, {"size": 4, "heads": 4})
def dit(size: int = 32, width: int = 48, heads: int = 4, depth: int = 4) -> Iterator[Monitor]:
    """DiT with adaLN-zero, a tenth of the labels left out for guidance, and AdamW without decay."""
    x, labels = digits()
    x = x * 2 - 1
    model: Any = Dit(width, depth, heads)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(100):
        rows, t = torch.randint(len(x), (size,)), torch.randint(1000, (size,))
        y = torch.where(torch.rand(size) < 0.1, 10, labels[rows])
        a, noise = kept[t].view(-1, 1, 1, 1), torch.randn(size, 1, 8, 8)
        loss = F.mse_loss(model(a.sqrt() * x[rows] + (1 - a).sqrt() * noise, t, y), noise)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Denoise(nn.Module):
    """A consistency model of points, which is the identity at the least noise."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(3, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2)
        )

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Points without noise."""
        skip = 0.25 / ((sigma - 0.002) ** 2 + 0.25)
        out = 0.5 * (sigma - 0.002) / (sigma**2 + 0.25).sqrt()
        scaled = x / (sigma**2 + 0.25).sqrt()
        return skip * x + out * self.net(torch.cat([scaled, 0.25 * sigma.log()], 1))


@sound()
def consistency() -> Iterator[Monitor]:
    """Consistency training (arXiv 2303.01469): the target is an average of the model itself."""
    model: Any = Denoise(64)
    target = deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.RAdam(model.parameters(), lr=2e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    sigmas = torch.exp(torch.linspace(math.log(0.002), math.log(10.0), 18))
    for step in range(200):
        x, noise = moons(128), torch.randn(128, 2)
        n = torch.randint(17, (128,))
        high, low = sigmas[n + 1][:, None], sigmas[n][:, None]
        with torch.no_grad():
            wanted = target(x + low * noise, low)
        loss = F.mse_loss(model(x + high * noise, high), wanted)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        with torch.no_grad():
            for ours, theirs in zip(target.parameters(), model.parameters(), strict=True):
                ours.lerp_(theirs, 0.05)
        yield model.monitor


@sound()
def energy() -> Iterator[Monitor]:
    """An energy-based model: Langevin samples from a buffer, energies near 0."""
    model: Any = nn.Sequential(
        nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.0, 0.999))
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    buffer = torch.rand(512, 2) * 4 - 2
    for step in range(150):
        rows = torch.randint(512, (64,))
        fake = torch.where(torch.rand(64, 1) < 0.05, torch.rand(64, 2) * 4 - 2, buffer[rows])
        model.eval().requires_grad_(False)
        for _ in range(10):
            fake = fake.detach().requires_grad_()
            (slope,) = torch.autograd.grad(model(fake).sum(), fake)
            fake = fake - 0.05 * slope + 0.05 * torch.randn_like(fake)
        model.train().requires_grad_(True)
        buffer[rows] = fake.detach()
        both = model(torch.cat([moons(64), fake.detach()]))
        real, made = both.chunk(2)
        loss = real.mean() - made.mean() + 0.1 * (real**2 + made**2).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        yield model.monitor
