"""Networks for functions, equations and distributions: fields, operators, solvers, uncertainty."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.datasets import load_diabetes
from torch import Tensor, nn

import taiyi_fx
from benchmarks.faults.sound.pictures import batches, patches
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


class Sine(nn.Module):
    """SIREN's layer (arXiv 2006.09661)."""

    def __init__(self, before: int, after: int, omega: float, is_first: bool) -> None:
        super().__init__()
        self.linear, self.omega = nn.Linear(before, after), omega
        bound = 1 / before if is_first else math.sqrt(6 / before) / omega
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Sines."""
        return torch.sin(self.omega * self.linear(x))


def siren(before: int, width: int, after: int, depth: int, omega: float = 30.0) -> nn.Sequential:
    """SIREN."""
    last = nn.Linear(width, after)
    bound = math.sqrt(6 / width) / omega
    nn.init.uniform_(last.weight, -bound, bound)
    inner = [Sine(width, width, omega, False) for _ in range(depth)]
    return nn.Sequential(Sine(before, width, omega, True), *inner, last)


def grid(side: int) -> Tensor:
    """Places of all pixels between -1 and 1."""
    line = torch.linspace(-1, 1, side)
    return torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).view(-1, 2)


@sound({}, {"width": 64, "depth": 2})
def sine_field(width: int = 48, depth: int = 3) -> Iterator[Monitor]:
    """A picture as a function of place, by all pixels at each step, as SIREN's notebook does."""
    target = patches()[5].mean(0).view(-1, 1) * 2 - 1
    model: Any = siren(2, width, 1, depth)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    places = grid(32)
    for step in range(200):
        loss = ((model(places) - target) ** 2).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Nerf(nn.Module):
    """NeRF's network: frequencies of places, a skip, density and colour by the direction."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.pts = nn.ModuleList([nn.Linear(39, width)])
        for i in range(1, depth):
            self.pts.append(nn.Linear(width + (39 if i == depth // 2 else 0), width))
        self.skip = depth // 2
        self.alpha = nn.Linear(width, 1)
        self.feature = nn.Linear(width, width)
        self.views = nn.Linear(width + 15, width // 2)
        self.rgb = nn.Linear(width // 2, 3)

    def forward(self, x: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        """Colour and density."""
        places, h = frequencies(x, 6), frequencies(x, 6)
        for i, layer in enumerate(self.pts):
            h = F.relu(layer(torch.cat([places, h], -1) if i == self.skip else h))
        alpha = self.alpha(h)
        h = torch.cat([self.feature(h), frequencies(d, 2)], -1)
        return torch.sigmoid(self.rgb(F.relu(self.views(h)))), alpha


def frequencies(x: Tensor, count: int) -> Tensor:
    """Places, and sines and cosines of them."""
    angles = x[..., None] * 2.0 ** torch.arange(count)
    return torch.cat([x, angles.sin().flatten(-2), angles.cos().flatten(-2)], -1)


@sound()
def radiance_field() -> Iterator[Monitor]:
    """NeRF of a coloured ball, rays of 16 samples, Adam at 5e-4 that decays."""
    model: Any = Nerf(48, 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.998)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(150):
        start = F.normalize(torch.randn(64, 3), dim=1) * 3
        way = F.normalize(0.6 * torch.randn(64, 3) - start, dim=1)
        closest = start - way * (start * way).sum(1, keepdim=True)
        is_hit = closest.norm(dim=1, keepdim=True) < 1
        target = torch.where(is_hit, 0.5 + 0.4 * closest, torch.ones(64, 3))
        t = torch.linspace(1.5, 4.5, 16) + 0.2 * torch.rand(64, 16)
        places = start[:, None] + way[:, None] * t[..., None]
        rgb, alpha = model(places, way[:, None].expand_as(places))
        opaque = 1 - torch.exp(-F.softplus(alpha[..., 0] - 1) * 0.2)
        through = torch.cumprod(torch.cat([torch.ones(64, 1), 1 - opaque + 1e-10], 1), 1)[:, :-1]
        weights = opaque * through
        made = (weights[..., None] * rgb).sum(1) + (1 - weights.sum(1, keepdim=True))
        loss = F.mse_loss(made, target)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        scheduler.step()
        yield model.monitor


def tanh_net(before: int, width: int, after: int, depth: int = 4) -> nn.Sequential:
    """A PINN's network."""
    layers: list[nn.Module] = [nn.Linear(before, width), nn.Tanh()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.Tanh()]
    net = nn.Sequential(*layers, nn.Linear(width, after))
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    return net


def burgers(net: nn.Module, inside: Tensor) -> Tensor:
    """The residual of Burgers' equation."""
    inside = inside.requires_grad_()
    u = net(inside)
    (slope,) = torch.autograd.grad(u.sum(), inside, create_graph=True)
    (second,) = torch.autograd.grad(slope[:, :1].sum(), inside, create_graph=True)
    return slope[:, 1:] + u * slope[:, :1] - 0.01 / math.pi * second[:, :1]


@sound({}, {"width": 32, "size": 32})
def pinn(width: int = 24, size: int = 128) -> Iterator[Monitor]:
    """Burgers' equation by Adam (Raissi), with double backward and three losses."""
    model: Any = tanh_net(2, width, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(150):
        inside = torch.rand(size, 2) * torch.tensor([2.0, 1.0]) - torch.tensor([1.0, 0.0])
        x, t = torch.rand(32, 1) * 2 - 1, torch.rand(32, 1)
        first = model(torch.cat([x, torch.zeros_like(x)], 1)) + torch.sin(math.pi * x)
        edge = model(torch.cat([torch.sign(x), t], 1))
        loss = (burgers(model, inside) ** 2).mean() + (first**2).mean() + (edge**2).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


@sound()
def pinn_by_lbfgs() -> Iterator[Monitor]:
    """The Poisson equation by L-BFGS with a line search; the closure runs many times a step."""
    model: Any = tanh_net(1, 16, 1, 3)
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=1.0, max_iter=5, line_search_fn="strong_wolfe"
    )
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    x = torch.linspace(0, 1, 64)[:, None]

    def closure() -> Tensor:
        optimizer.zero_grad()
        places = x.clone().requires_grad_()
        u = places * (1 - places) * model(places)
        (slope,) = torch.autograd.grad(u.sum(), places, create_graph=True)
        (second,) = torch.autograd.grad(slope.sum(), places, create_graph=True)
        loss = ((second + math.pi**2 * torch.sin(math.pi * places)) ** 2).mean()
        model.monitor.log("loss", loss)
        loss.backward()
        return loss

    for step in range(60):
        optimizer.step(closure)
        model.monitor.track(step)
        yield model.monitor


class DeepONet(nn.Module):
    """A branch of a function's values, a trunk of a place (arXiv 1910.03193)."""

    def __init__(self, sensors: int, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Linear(sensors, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
        )
        self.trunk = nn.Sequential(
            nn.Linear(1, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
        )
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, f: Tensor, x: Tensor) -> Tensor:
        """Values at places, of each function."""
        return self.branch(f) @ self.trunk(x).T + self.bias


@sound({}, {"size": 40, "width": 40})
def operator_net(size: int = 32, width: int = 40) -> Iterator[Monitor]:
    """DeepONet: the integral of random functions."""
    model: Any = DeepONet(40, width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    x = torch.linspace(0, 1, 40)
    for step in range(200):
        waves = torch.randn(size, 6) / torch.arange(1, 7)
        f = waves @ torch.cos(math.pi * torch.arange(6)[:, None] * x)
        loss = F.mse_loss(model(f, x[:, None]), torch.cumsum(f, 1) / 40)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Spectral(nn.Module):
    """FNO's layer, with complex weights (arXiv 2010.08895)."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weights1 = nn.Parameter(torch.rand(width, width, modes, dtype=torch.cfloat) / width**2)

    def forward(self, x: Tensor) -> Tensor:
        """Of (samples, width, places)."""
        waves = torch.fft.rfft(x)
        out = torch.zeros_like(waves)
        out[:, :, : self.modes] = torch.einsum(
            "bix,iox->box", waves[:, :, : self.modes], self.weights1
        )
        return torch.fft.irfft(out, n=x.shape[-1])


class Fno(nn.Module):
    """FNO in one dimension, as its authors wrote it."""

    def __init__(self, width: int, modes: int, depth: int = 4) -> None:
        super().__init__()
        self.fc0 = nn.Linear(2, width)
        self.convs = nn.ModuleList(Spectral(width, modes) for _ in range(depth))
        self.ws = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(depth))
        self.fc1, self.fc2 = nn.Linear(width, 64), nn.Linear(64, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Of (samples, places, 2)."""
        x = self.fc0(x).permute(0, 2, 1)
        for i, (conv, w) in enumerate(zip(self.convs, self.ws, strict=True)):
            x = conv(x) + w(x)
            if i < len(self.convs) - 1:
                x = F.gelu(x)
        return self.fc2(F.gelu(self.fc1(x.permute(0, 2, 1))))


@sound({}, {"size": 16, "width": 16, "modes": 16})
def fourier_operator(size: int = 16, width: int = 24, modes: int = 12) -> Iterator[Monitor]:
    """FNO: the heat equation, by the relative L2 loss, Adam with decay, and StepLR."""
    model: Any = Fno(width, modes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=50, gamma=0.5)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    x = torch.arange(64) / 64
    k = torch.arange(1, 8)
    for step in range(120):
        waves = torch.randn(size, 7) / k
        basis = torch.sin(2 * math.pi * k[:, None] * x)
        before, after = waves @ basis, (waves * torch.exp(-0.02 * k**2)) @ basis
        made = model(torch.stack([before, x.expand(size, -1)], -1))[..., 0]
        loss = ((made - after).norm(dim=1) / after.norm(dim=1)).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        scheduler.step()
        yield model.monitor


class Ode(nn.Module):
    """dx/dt, integrated by Runge and Kutta in fixed steps, as torchdiffeq's demo."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))
        for layer in self.net:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=0.1)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, steps: int, h: float) -> Tensor:
        """States at all times."""
        states = [x]
        for _ in range(steps):
            a = self.net(x**3)
            b = self.net((x + h / 2 * a) ** 3)
            c = self.net((x + h / 2 * b) ** 3)
            d = self.net((x + h * c) ** 3)
            x = x + h / 6 * (a + 2 * b + 2 * c + d)
            states.append(x)
        return torch.stack(states)


@sound()
def neural_ode() -> Iterator[Monitor]:
    """Torchdiffeq's demo: a spiral, RMSprop, the mean absolute error of ten times."""
    truth = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    h = 0.025
    with torch.no_grad():
        states = [torch.tensor([[2.0, 0.0]])]
        for _ in range(1000):
            half = states[-1] + h / 2 * (states[-1] ** 3) @ truth
            states.append(states[-1] + h * (half**3) @ truth)
        path = torch.stack(states)
    model: Any = Ode(50)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(120):
        at = torch.randint(990, (20,))
        loss = (model(path[at], 9, h) - torch.stack([path[at + i] for i in range(10)])).abs().mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Equilibrium(nn.Module):
    """A deep equilibrium model: a fixed point without a graph, and one step with one."""

    def __init__(self, before: int, width: int, classes: int) -> None:
        super().__init__()
        self.enter, self.inner = nn.Linear(before, width), nn.Linear(width, width)
        self.norm, self.leave = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.enter(x)
        z = torch.zeros_like(x)
        with torch.no_grad():
            for _ in range(15):
                z = self.step(z, x)
        return self.leave(self.step(z, x))

    def step(self, z: Tensor, x: Tensor) -> Tensor:
        """The next state."""
        return self.norm(torch.tanh(self.inner(z) + x))


@sound()
def equilibrium() -> Iterator[Monitor]:
    """A deep equilibrium model with the gradient of its last step alone (JFB, 2103.12803)."""
    x, y = batches_of_rings(1500)
    model: Any = Equilibrium(2, 32, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    for _ in range(4):
        for rows, labels in batches(50, x, y):
            loss = F.cross_entropy(model(rows), labels)
            optimizer.zero_grad()
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            step += 1
            yield model.monitor


def batches_of_rings(size: int) -> tuple[Tensor, Tensor]:
    """Points of three rings, and which they are."""
    y, angle = torch.randint(3, (size,)), torch.rand(size) * 2 * math.pi
    return (y + 1 + 0.1 * torch.randn(size))[:, None] * torch.stack(
        [angle.cos(), angle.sin()], 1
    ) / 2, y


class Mixture(nn.Module):
    """A mixture density network."""

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(1, width), nn.Tanh())
        self.pi, self.mu, self.sigma = (nn.Linear(width, parts) for _ in range(3))

    def forward(self, x: Tensor) -> torch.distributions.Distribution:
        """The distribution of y."""
        h = self.hidden(x)
        parts = torch.distributions.Normal(self.mu(h), self.sigma(h).exp())
        return torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(logits=self.pi(h)), parts
        )


@sound()
def mixture_density(parts: int = 5) -> Iterator[Monitor]:
    """Bishop's inverse problem."""
    model: Any = Mixture(20, parts)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(200):
        y = torch.rand(128) * 21 - 10.5
        x = (7 * torch.sin(0.75 * y) + 0.5 * y + torch.randn(128)) / 5
        loss = -model(x[:, None]).log_prob(y / 5).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


@sound(
    {"kind": "huber"},
    {"kind": "l1"},
    {"kind": "mse"},
    {"kind": "nll"},
    {"kind": "evidential"},
    {"kind": "quantile"},
    {"kind": "poisson"},
    {"kind": "mse", "size": 10, "width": 10},
    {"kind": "mse", "raw": True},
)
def regression(kind: str, size: int = 32, width: int = 64, raw: bool = False) -> Iterator[Monitor]:
    """Diabetes of sklearn: robust losses, learned variance, evidence, quantiles, counts."""
    x, y = (torch.tensor(one, dtype=torch.float32) for one in load_diabetes(return_X_y=True))
    x = (x - x.mean(0)) / x.std(0)
    y = (y - y.mean()) / y.std() if not raw else y / 100
    outputs = {"nll": 2, "evidential": 4, "quantile": 3}.get(kind, 1)
    model: Any = nn.Sequential(
        nn.Linear(10, width),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, outputs),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    quantiles = torch.tensor([0.1, 0.5, 0.9])
    step = 0
    for _ in range(10):
        model.train()
        for rows, target in batches(size, x[:400], y[:400]):
            made = model(rows)
            if kind == "nll":
                loss = F.gaussian_nll_loss(made[:, 0], target, F.softplus(made[:, 1]) + 1e-4)
            elif kind == "evidential":
                loss = evidence(made, target)
            elif kind == "quantile":
                off = target[:, None] - made
                loss = torch.maximum(quantiles * off, (quantiles - 1) * off).mean()
            elif kind == "poisson":
                loss = F.poisson_nll_loss(made[:, 0], (target * 2 + 6).round().clamp_min(0))
            else:
                of: Any = {"huber": F.huber_loss, "l1": F.l1_loss, "mse": F.mse_loss}
                loss = of[kind](made.squeeze(1), target)
            optimizer.zero_grad()
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            step += 1
            yield model.monitor
        model.eval()
        with torch.no_grad():
            model(x[400:])


def evidence(made: Tensor, y: Tensor) -> Tensor:
    """The loss of deep evidential regression (arXiv 1910.02600)."""
    mu, nu, alpha, beta = made.unbind(1)
    nu, alpha, beta = F.softplus(nu) + 1e-3, F.softplus(alpha) + 1.001, F.softplus(beta) + 1e-3
    two = 2 * beta * (1 + nu)
    nll = 0.5 * torch.log(math.pi / nu) - alpha * torch.log(two)
    nll = nll + (alpha + 0.5) * torch.log(nu * (y - mu) ** 2 + two)
    nll = nll + torch.lgamma(alpha) - torch.lgamma(alpha + 0.5)
    return (nll + 0.01 * (y - mu).abs() * (2 * nu + alpha)).mean()


class DeepKernel(nn.Module):
    """A Gaussian process over the features of a network, exact."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Linear(10, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
        )
        self.raw_lengthscale = nn.Parameter(torch.zeros(1))
        self.raw_scale = nn.Parameter(torch.zeros(1))
        self.raw_noise = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The negative logarithm of the marginal likelihood of a point."""
        z = self.features(x) / F.softplus(self.raw_lengthscale)
        k = F.softplus(self.raw_scale) * torch.exp(-0.5 * torch.cdist(z, z) ** 2)
        k = k + (F.softplus(self.raw_noise) + 1e-4) * torch.eye(len(x))
        normal = torch.distributions.MultivariateNormal(torch.zeros(len(x)), k)
        return -normal.log_prob(y) / len(x)


@sound()
def deep_kernel() -> Iterator[Monitor]:
    """Deep kernel learning by all data at each step, the network at a tenth of the rate."""
    x, y = (torch.tensor(one, dtype=torch.float32)[:150] for one in load_diabetes(return_X_y=True))
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    model: Any = DeepKernel(32)
    kernel = [p for name, p in model.named_parameters() if name.startswith("raw")]
    groups: Any = [
        {"params": model.features.parameters(), "lr": 1e-3, "weight_decay": 1e-4},
        {"params": kernel, "lr": 1e-2},
    ]
    optimizer = torch.optim.Adam(groups)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(120):
        loss = model(x, y)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor
