"""Pictures without labels: two views, momentum encoders, masks; and metrics among samples."""

from __future__ import annotations

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


def view_of(x: Tensor) -> Tensor:
    """Pictures that are shifted, of other contrast, and with noise."""
    shift = torch.randint(-1, 2, (2,)).tolist()
    x = torch.roll(x, shift, (2, 3)) * (0.7 + 0.6 * torch.rand(len(x), 1, 1, 1))
    return x + 0.1 * torch.randn_like(x)


def encoder(width: int = 16) -> nn.Sequential:
    """A small convolutional network that ends in a mean."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(inplace=True),
        nn.Conv2d(2 * width, 2 * width, 3, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def head(before: int, hidden: int, after: int, last_norm: bool = False) -> nn.Sequential:
    """A projector or predictor."""
    layers = [
        nn.Linear(before, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, after),
    ]
    return nn.Sequential(*layers, *([nn.BatchNorm1d(after, affine=False)] if last_norm else []))


def nt_xent(a: Tensor, b: Tensor, hot: float = 0.2) -> Tensor:
    """SimCLR's loss."""
    z = F.normalize(torch.cat([a, b]), dim=1)
    alike = z @ z.T / hot
    alike = alike.masked_fill(torch.eye(len(z), dtype=torch.bool), -1e9)
    return F.cross_entropy(alike, torch.arange(len(z)).roll(len(a)))


def barlow(a: Tensor, b: Tensor) -> Tensor:
    """Barlow Twins' loss."""
    c = ((a - a.mean(0)) / a.std(0)).T @ ((b - b.mean(0)) / b.std(0)) / len(a)
    on = (torch.diagonal(c) - 1).pow(2).sum()
    return on + 0.005 * (c.pow(2).sum() - torch.diagonal(c).pow(2).sum())


def vicreg(a: Tensor, b: Tensor) -> Tensor:
    """VICReg's loss."""
    of = 25 * F.mse_loss(a, b)
    for z in (a, b):
        of = of + 12.5 * F.relu(1 - (z.var(0) + 1e-4).sqrt()).mean()
        z = z - z.mean(0)
        c = z.T @ z / (len(z) - 1)
        of = of + (c.pow(2).sum() - torch.diagonal(c).pow(2).sum()) / z.shape[1]
    return of


class Twins(nn.Module):
    """One network for both views; with a predictor, SimSiam."""

    def __init__(self, kind: str, width: int) -> None:
        super().__init__()
        self.backbone = encoder()
        self.projector = head(32, 64, width, last_norm=kind == "simsiam")
        self.predictor = head(width, 16, width) if kind == "simsiam" else nn.Identity()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions and projections."""
        z = self.projector(self.backbone(x))
        return self.predictor(z), z


@sound(
    {"kind": "simclr"},
    {"kind": "barlow"},
    {"kind": "vicreg"},
    {"kind": "simsiam"},
    {"kind": "simclr", "size": 64, "width": 64},
)
def twins(kind: str, size: int = 48, width: int = 32) -> Iterator[Monitor]:
    """SimCLR, Barlow Twins, VICReg and SimSiam, whose loss goes to -1."""
    x = digits()[0] * 2 - 1
    model: Any = Twins(kind, width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    if kind in ("barlow", "vicreg"):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 120)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(120):
        data = x[torch.randint(len(x), (size,))]
        (p1, z1), (p2, z2) = model(view_of(data)), model(view_of(data))
        if kind == "simsiam":
            loss = (
                -(
                    F.cosine_similarity(p1, z2.detach()).mean()
                    + F.cosine_similarity(p2, z1.detach()).mean()
                )
                / 2
            )
        else:
            loss = {"simclr": nt_xent, "barlow": barlow, "vicreg": vicreg}[kind](z1, z2)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        scheduler.step()
        yield model.monitor


class Moco(nn.Module):
    """A query encoder, a key encoder that follows it, and a queue of keys."""

    def __init__(self, width: int, keys: int) -> None:
        super().__init__()
        self.encoder_q = nn.Sequential(encoder(), head(32, 48, width))
        self.encoder_k = deepcopy(self.encoder_q)
        self.encoder_k.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(width, keys), dim=0))
        self.at = 0

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Logits, of which the first is the right key."""
        q = F.normalize(self.encoder_q(a), dim=1)
        with torch.no_grad():
            for ours, theirs in zip(
                self.encoder_k.parameters(), self.encoder_q.parameters(), strict=True
            ):
                ours.mul_(0.99).add_(theirs, alpha=0.01)
            order = torch.randperm(len(b))
            k = F.normalize(self.encoder_k(b[order]), dim=1)[order.argsort()]
        queue = self.get_buffer("queue")
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.clone().detach()], 1) / 0.2
        queue[:, self.at : self.at + len(k)] = k.T
        self.at = (self.at + len(k)) % queue.shape[1]
        return logits


@sound({}, {"size": 32, "width": 32, "keys": 32})
def moco(size: int = 32, width: int = 32, keys: int = 256) -> Iterator[Monitor]:
    """MoCo (arXiv 1911.05722)."""
    x = digits()[0] * 2 - 1
    model: Any = Moco(width, keys)
    optimizer = torch.optim.SGD(
        model.encoder_q.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4
    )
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(120):
        data = x[torch.randint(len(x), (size,))]
        logits = model(view_of(data), view_of(data))
        loss = F.cross_entropy(logits, torch.zeros(size, dtype=torch.long))
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Byol(nn.Module):
    """An online network with a predictor, and a target that follows it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.online = nn.Sequential(encoder(), head(32, 64, width))
        self.predictor = head(width, 64, width)
        self.target = deepcopy(self.online)
        self.target.requires_grad_(False)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """The loss of both ways."""
        p1, p2 = self.predictor(self.online(a)), self.predictor(self.online(b))
        with torch.no_grad():
            z1, z2 = self.target(a), self.target(b)
        return (4 - 2 * F.cosine_similarity(p1, z2) - 2 * F.cosine_similarity(p2, z1)).mean()

    @torch.no_grad()
    def follow(self, share: float) -> None:
        """Moves the target."""
        for ours, theirs in zip(self.target.parameters(), self.online.parameters(), strict=True):
            ours.lerp_(theirs, share)


@sound({}, {"size": 8})
def byol(size: int = 48) -> Iterator[Monitor]:
    """BYOL (arXiv 2006.07733), by AdamW."""
    x = digits()[0] * 2 - 1
    model: Any = Byol(32)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=1e-2)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(120):
        data = x[torch.randint(len(x), (size,))]
        loss = model(view_of(data), view_of(data))
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        model.follow(0.01)
        yield model.monitor


class DinoHead(nn.Module):
    """DINO's head: a bottleneck of length 1, and prototypes whose gain stays 1."""

    def __init__(self, before: int, prototypes: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(before, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 24)
        )
        for layer in self.mlp:
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)
        self.last_layer = nn.utils.weight_norm(nn.Linear(24, prototypes, bias=False))
        self.last_layer.weight_g.data.fill_(1)
        self.last_layer.weight_g.requires_grad = False

    def forward(self, x: Tensor) -> Tensor:
        """Similarities to prototypes."""
        return self.last_layer(F.normalize(self.mlp(x), dim=-1))


@sound({}, {"prototypes": 24, "size": 24})
def dino(size: int = 32, prototypes: int = 64) -> Iterator[Monitor]:
    """DINO (arXiv 2104.14294): centred, sharp targets; the last layer stays for an epoch."""
    x = digits()[0] * 2 - 1
    student, teacher = (nn.Sequential(encoder(), DinoHead(32, prototypes)) for _ in range(2))
    teacher.load_state_dict(student.state_dict())
    teacher.requires_grad_(False)
    both: Any = nn.ModuleDict({"student": student, "teacher": teacher})
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3, weight_decay=0.04)
    center = torch.zeros(1, prototypes)
    both = taiyi_fx.instrument(both, optimizer=optimizer)
    for step in range(120):
        data = x[torch.randint(len(x), (size,))]
        views = [view_of(data) for _ in range(3)]
        with torch.no_grad():
            known = [both["teacher"](one) for one in views[:2]]
        loss, terms = torch.zeros(()), 0
        for i, one in enumerate(views):
            guess = F.log_softmax(both["student"](one) / 0.1, -1)
            for j, target in enumerate(known):
                if i != j:
                    loss = loss - (F.softmax((target - center) / 0.04, -1) * guess).sum(-1).mean()
                    terms += 1
        loss = loss / terms
        optimizer.zero_grad()
        both.monitor.log("loss", loss)
        loss.backward()
        both.monitor.track(step)
        nn.utils.clip_grad_norm_(student.parameters(), 3.0)
        if step < 20:
            for parameter in student[1].last_layer.parameters():
                parameter.grad = None
        optimizer.step()
        with torch.no_grad():
            center = center * 0.9 + torch.cat(known).mean(0, keepdim=True) * 0.1
            for ours, theirs in zip(
                both["teacher"].parameters(), student.parameters(), strict=True
            ):
                ours.lerp_(theirs, 0.01)
        yield both.monitor


class Mae(nn.Module):
    """A masked autoencoder (arXiv 2111.06377), by torch's layers."""

    def __init__(self, width: int, heads: int, depth: int, patch: int, side: int) -> None:
        super().__init__()
        self.patch, tokens = patch, side * side
        self.embed = nn.Conv2d(3, width, patch, patch)
        self.register_buffer("place", 0.02 * torch.randn(1, tokens, width))
        self.cls = nn.Parameter(0.02 * torch.randn(1, 1, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(
            layer, depth, nn.LayerNorm(width), enable_nested_tensor=False
        )
        small = width // 2
        self.to_decoder = nn.Linear(width, small)
        self.mask_token = nn.Parameter(0.02 * torch.randn(1, 1, small))
        self.register_buffer("decoder_place", 0.02 * torch.randn(1, tokens, small))
        layer = nn.TransformerEncoderLayer(
            small, heads, 4 * small, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.decoder = nn.TransformerEncoder(
            layer, 1, nn.LayerNorm(small), enable_nested_tensor=False
        )
        self.predict = nn.Linear(small, 3 * patch**2)

    def forward(self, x: Tensor) -> Tensor:
        """The loss of the patches that are hidden."""
        wanted = F.unfold(x, self.patch, stride=self.patch).transpose(1, 2)
        wanted = (wanted - wanted.mean(-1, keepdim=True)) / (
            wanted.var(-1, keepdim=True) + 1e-6
        ).sqrt()
        tokens = self.embed(x).flatten(2).transpose(1, 2) + self.place
        n, t, c = tokens.shape
        order = torch.rand(n, t).argsort(1)
        back, kept = order.argsort(1), t // 4
        seen = tokens.gather(1, order[:, :kept, None].expand(-1, -1, c))
        seen = self.blocks(torch.cat([self.cls.expand(n, -1, -1), seen], 1))
        seen = self.to_decoder(seen)[:, 1:]
        every = torch.cat([seen, self.mask_token.expand(n, t - kept, -1)], 1)
        every = every.gather(1, back[..., None].expand(-1, -1, c // 2)) + self.decoder_place
        made = self.predict(self.decoder(every))
        mask = (back >= kept).float()
        return (((made - wanted) ** 2).mean(-1) * mask).sum() / mask.sum()


@sound({}, {"size": 16, "width": 16, "heads": 4}, {"size": 4, "width": 32, "heads": 4})
def masked_autoencoder(size: int = 24, width: int = 48, heads: int = 4) -> Iterator[Monitor]:
    """MAE on patches of photographs, three quarters hidden, targets normalised patch by patch."""
    x = patches()
    x = (x - x.mean((0, 2, 3), keepdim=True)) / x.std((0, 2, 3), keepdim=True)
    model: Any = Mae(width, heads, 3, 8, 4)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1.5e-3, betas=(0.9, 0.95), weight_decay=0.05
    )
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    while step < 120:
        for (data,) in batches(size, x):
            loss = model(data)
            optimizer.zero_grad()
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            step += 1
            yield model.monitor


@sound({}, {"size": 64, "width": 64})
def siamese(size: int = 32, width: int = 16) -> Iterator[Monitor]:
    """Pairs by the contrastive loss of Hadsell with a margin of 1."""
    x, y = digits()
    model: Any = nn.Sequential(encoder(), nn.Linear(32, width))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(120):
        a, b = torch.randint(len(x), (2, size))
        half = size // 2
        same = [int(torch.nonzero(y == y[i])[torch.randint(100, ())]) for i in a[:half]]
        b[:half] = torch.tensor(same)
        is_same = (y[a] == y[b]).float()
        distance = F.pairwise_distance(model(x[a]), model(x[b]))
        loss = (is_same * distance**2 + (1 - is_same) * F.relu(1 - distance) ** 2).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


@sound({}, {"ways": 5, "shots": 1})
def prototypical(ways: int = 5, shots: int = 5) -> Iterator[Monitor]:
    """Prototypical networks (arXiv 1703.05175): an episode of new classes each step."""
    x, y = digits()
    model: Any = encoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(100):
        chosen = torch.randperm(8)[:ways]
        rows = torch.stack(
            [torch.nonzero(y == c)[torch.randperm(150)[: shots + 5], 0] for c in chosen]
        )
        z = model(x[rows.flatten()]).view(ways, shots + 5, -1)
        prototypes, queries = z[:, :shots].mean(1), z[:, shots:].reshape(ways * 5, -1)
        logits = -(torch.cdist(queries, prototypes) ** 2)
        loss = F.cross_entropy(logits, torch.arange(ways).repeat_interleave(5))
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Angles(nn.Module):
    """ArcFace or CosFace over a network."""

    def __init__(self, classes: int, scale: float, arc: float, cos: float) -> None:
        super().__init__()
        self.body = nn.Sequential(encoder(), nn.Linear(32, 16, bias=False), nn.BatchNorm1d(16))
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(classes, 16)))
        self.scale, self.arc, self.cos = scale, arc, cos

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Logits, of which that of the class has a margin."""
        cosine = F.linear(F.normalize(self.body(x)), F.normalize(self.weight)).clamp(
            -1 + 1e-7, 1 - 1e-7
        )
        target = torch.cos(torch.acos(cosine) + self.arc) - self.cos
        return self.scale * torch.where(F.one_hot(y, cosine.shape[1]).bool(), target, cosine)


@sound({"scale": 30.0, "arc": 0.5}, {"scale": 30.0, "cos": 0.35}, {"scale": 64.0, "arc": 0.5})
def margins(scale: float, arc: float = 0.0, cos: float = 0.0, size: int = 48) -> Iterator[Monitor]:
    """ArcFace and CosFace, whose loss begins at 10 to 30 by their scale of 30 or 64."""
    x, y = digits()
    model: Any = Angles(10, scale, arc, cos)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(150):
        rows = torch.randint(len(x), (size,))
        loss = F.cross_entropy(model(x[rows], y[rows]), y[rows])
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        yield model.monitor
