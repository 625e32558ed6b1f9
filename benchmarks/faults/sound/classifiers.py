"""Classifiers of small pictures, as in torch's tutorials and examples."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx
from benchmarks.faults.sound.pictures import batches, coloured, digits
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


class Quickstart(nn.Module):
    """The network of torch's quickstart."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(
            nn.Linear(64, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 10),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.linear_relu_stack(self.flatten(x))


@sound({}, {"size": 1, "rate": 1e-3}, {"size": 64, "width": 64})
def quickstart(size: int = 64, width: int = 512, rate: float = 1e-2) -> Iterator[Monitor]:
    """Torch's quickstart: plain SGD, a test after each epoch; also of single samples."""
    x, y = digits()
    train, test = (
        batches(size, x[: 100 * size][:1500], y[: 100 * size][:1500]),
        (x[1500:], y[1500:]),
    )
    model: Any = Quickstart(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    loss_fn = nn.CrossEntropyLoss()
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    for _ in range(4):
        model.train()
        for x, y in train:
            loss = loss_fn(model(x), y)
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            yield model.monitor
        model.eval()
        with torch.no_grad():
            loss_fn(model(test[0]), test[1])


class Mnist(nn.Module):
    """The network of torch's example for MNIST."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1, padding=1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(1024, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logarithms of probabilities."""
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = self.dropout2(F.relu(self.fc1(torch.flatten(x, 1))))
        return F.log_softmax(self.fc2(x), dim=1)


@sound({}, {"size": 10})
def mnist_example(size: int = 64) -> Iterator[Monitor]:
    """Torch's example for MNIST: Adadelta at 1.0, StepLR by 0.7, nll_loss of a log_softmax."""
    x, y = digits()
    x = (x - 0.1307) / 0.3081
    train = batches(size, x[: 25 * size], y[: 25 * size])
    model: Any = Mnist()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for epoch in range(4):
        model.train()
        for i, (data, target) in enumerate(train):
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(epoch * len(train) + i)
            optimizer.step()
            yield model.monitor
        model.eval()
        with torch.no_grad():
            F.nll_loss(model(x[1600:]), y[1600:], reduction="sum")
        scheduler.step()


class Net(nn.Module):
    """The network of torch's tutorial on CIFAR-10."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


@sound()
def cifar_tutorial() -> Iterator[Monitor]:
    """Torch's tutorial on CIFAR-10: batches of four, SGD at 0.001 with momentum, a long plateau."""
    x, y = coloured()
    model: Any = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for i, (inputs, labels) in enumerate(batches(4, x, y)):
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(i)
        optimizer.step()
        yield model.monitor


def small_cnn(classes: int = 10, width: int = 16) -> nn.Sequential:
    """Three stages of a convolution, a batch norm and a ReLU."""
    layers: list[nn.Module] = []
    for before, after in ((1, width), (width, 2 * width), (2 * width, 2 * width)):
        layers += [
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, classes)
    )


@sound({}, {"cut": True})
def mixed_up(cut: bool = False) -> Iterator[Monitor]:
    """Mixup or cutmix with soft targets, a cosine and an average of weights, as recipes have it."""
    x, y = digits()
    model: Any = small_cnn()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    loader = batches(64, (x - x.mean()) / x.std(), y)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5 * len(loader))
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
    )
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    for _ in range(5):
        for x, y in loader:
            share = float(torch.distributions.Beta(0.4, 0.4).sample())
            targets, order = F.one_hot(y, 10).float(), torch.randperm(len(x))
            if cut:
                width = round(8 * (1 - share) ** 0.5)
                left, top = int(torch.randint(9 - width, ())), int(torch.randint(9 - width, ()))
                x = x.clone()
                window = (..., slice(top, top + width), slice(left, left + width))
                x[window] = x[order][window]
                share = 1 - width**2 / 64
            else:
                x = share * x + (1 - share) * x[order]
            loss = F.cross_entropy(model(x), share * targets + (1 - share) * targets[order])
            optimizer.zero_grad()
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            average.update_parameters(model)
            scheduler.step()
            step += 1
            yield model.monitor


@sound({"kind": "smoothed"}, {"kind": "weighted"}, {"kind": "focal"}, {"kind": "one_hot"})
def losses_of_classes(kind: str) -> Iterator[Monitor]:
    """Label smoothing; weights of rare classes; the focal loss; a sigmoid for each class."""
    x, y = digits()
    if kind in ("weighted", "focal"):
        kept = (y < 3) | (torch.rand(len(y)) < 0.15)
        x, y = x[kept], y[kept]
    counts = torch.bincount(y, minlength=10)
    weight = counts.sum() / (10 * counts)
    model: Any = small_cnn(width=12)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    for _ in range(6):
        for inputs, labels in batches(48, x, y):
            logits = model(inputs)
            if kind == "smoothed":
                loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
            elif kind == "weighted":
                loss = F.cross_entropy(logits, labels, weight=weight)
            elif kind == "one_hot":
                targets = F.one_hot(labels, 10).float()
                loss = F.binary_cross_entropy_with_logits(logits, targets)
            else:
                each = F.cross_entropy(logits, labels, reduction="none")
                loss = ((1 - torch.exp(-each)) ** 2 * each).mean()
            model.monitor.log("loss", loss)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            step += 1
            yield model.monitor


@sound({}, {"labels": 1})
def many_labels(labels: int = 6) -> Iterator[Monitor]:
    """Several labels at once, rare ones weighed by `pos_weight`, as tags of pictures are."""
    x, y = digits()
    bits = torch.stack([y == 3, y >= 5, y % 2 == 0, y % 3 == 0, y == 7, y > 0], 1)[
        :, -labels:
    ].float()
    positive = bits.mean(0)
    criterion = nn.BCEWithLogitsLoss(pos_weight=(1 - positive) / positive)
    model: Any = small_cnn(labels)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    for _ in range(4):
        for inputs, targets in batches(32, x, bits):
            loss = criterion(model(inputs), targets)
            model.monitor.log("loss", loss)
            optimizer.zero_grad()
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            step += 1
            yield model.monitor


class Ordered(nn.Module):
    """CORAL: one score, and a threshold for each step from class to class."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU()
        )
        self.score = nn.Linear(48, 1, bias=False)
        self.thresholds = nn.Parameter(torch.zeros(classes - 1))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of being beyond each class but the last."""
        return self.score(self.body(x)) + self.thresholds


@sound()
def ordinal() -> Iterator[Monitor]:
    """Ordinal regression by CORAL (arXiv 1901.07884), as ages are told."""
    x, y = digits()
    beyond = (y[:, None] > torch.arange(9)).float()
    model: Any = Ordered(10)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    for _ in range(5):
        for inputs, targets in batches(50, x, beyond):
            logits = model(inputs)
            loss = -(
                F.logsigmoid(logits) * targets + (F.logsigmoid(logits) - logits) * (1 - targets)
            )
            loss = loss.sum(1).mean()
            optimizer.zero_grad()
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            step += 1
            yield model.monitor


@sound()
def sharpness_aware() -> Iterator[Monitor]:
    """SAM (arXiv 2010.01412): two forwards and backwards a step, the second at a worse place."""
    x, y = digits()
    model: Any = small_cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    for _ in range(4):
        for inputs, labels in batches(64, (x - x.mean()) / x.std(), y):
            F.cross_entropy(model(inputs), labels).backward()
            norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            with torch.no_grad():
                moved = [(p, p.grad * (0.05 / (norm + 1e-12))) for p in model.parameters()]
                for parameter, offset in moved:
                    parameter.add_(offset)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            model.monitor.log("loss", loss)
            loss.backward()
            with torch.no_grad():
                for parameter, offset in moved:
                    parameter.sub_(offset)
            model.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            yield model.monitor


class Lars(torch.optim.Optimizer):
    """LARS (arXiv 1708.03888): steps of each weight in proportion to its size."""

    def __init__(self, params: Any, lr: float, momentum: float = 0.9, trust: float = 0.02) -> None:
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "trust": trust, "weight_decay": 1e-4}
        )

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Moves all parameters."""
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad + group["weight_decay"] * p
                if p.dim() > 1:
                    grad = grad * (group["trust"] * p.norm() / (grad.norm() + 1e-9))
                buffer = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                p.add_(buffer.mul_(group["momentum"]).add_(grad), alpha=-group["lr"])


@sound({"by": "lars"}, {"by": "rmsprop"}, {"by": "adagrad"}, {"by": "radam"})
def other_optimizers(by: str) -> Iterator[Monitor]:
    """The same network by LARS with a warm-up, RMSprop, Adagrad and RAdam."""
    x, y = digits()
    x = (x - x.mean()) / x.std()
    model: Any = small_cnn()
    optimizer: torch.optim.Optimizer = {
        "lars": lambda p: Lars(p, 0.5),
        "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, alpha=0.9, momentum=0.9, eps=1e-3),
        "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2),
        "radam": lambda p: torch.optim.RAdam(p, lr=2e-3),
    }[by](model.parameters())
    warm_up = torch.optim.lr_scheduler.LinearLR(
        optimizer, 0.1, total_iters=10 if by == "lars" else 0
    )
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    loader = batches(64, x, y)
    step = 0
    for _ in range(4):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            if by == "lars":
                warm_up.step()
            step += 1
            yield model.monitor


@sound({}, {"rate": 1e-3})
def resilient(rate: float = 1e-2) -> Iterator[Monitor]:
    """Rprop, which goes by the signs of gradients of all data together, as for a regression."""
    x = torch.linspace(-3, 3, 200)[:, None]
    y = torch.sin(2 * x) + 0.1 * torch.randn_like(x)
    model: Any = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
    model.append(nn.Linear(32, 1))
    optimizer = torch.optim.Rprop(model.parameters(), lr=rate)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(150):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


@sound({}, {"size": 8})
def distilled(size: int = 64) -> Iterator[Monitor]:
    """A student of a frozen teacher, by soft targets at a temperature and labels (1503.02531)."""
    x, y = digits()
    x = (x - x.mean()) / x.std()
    teacher = small_cnn(width=24)
    optimizer: torch.optim.Optimizer = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for _ in range(2):
        for inputs, labels in batches(64, x, y):
            optimizer.zero_grad()
            F.cross_entropy(teacher(inputs), labels).backward()
            optimizer.step()
    teacher.eval().requires_grad_(False)
    both: Any = nn.ModuleDict({"teacher": teacher, "student": small_cnn(width=6)})
    optimizer = torch.optim.SGD(both["student"].parameters(), lr=0.05, momentum=0.9)
    both = taiyi_fx.instrument(both, optimizer=optimizer)
    step, hot = 0, 4.0
    for _ in range(4):
        for inputs, labels in batches(size, x[: 40 * size], y[: 40 * size]):
            with torch.no_grad():
                known = both["teacher"](inputs)
            guessed = both["student"](inputs)
            soft = F.kl_div(
                F.log_softmax(guessed / hot, 1), F.softmax(known / hot, 1), reduction="batchmean"
            )
            loss = 0.9 * hot**2 * soft + 0.1 * F.cross_entropy(guessed, labels)
            optimizer.zero_grad()
            both.monitor.log("loss", loss)
            loss.backward()
            both.monitor.track(step)
            optimizer.step()
            step += 1
            yield both.monitor


class Exits(nn.Module):
    """BranchyNet: a classifier after each stage."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList()
        self.exits = nn.ModuleList()
        for before, after in ((1, 12), (12, 24), (24, 24), (24, 24)):
            self.stages.append(
                nn.Sequential(
                    nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU()
                )
            )
            self.exits.append(nn.Linear(after, 10))

    def forward(self, x: Tensor) -> list[Tensor]:
        """Logits of all exits."""
        made = []
        for stage, leave in zip(self.stages, self.exits, strict=True):
            x = stage(x)
            made.append(leave(x.mean((2, 3))))
        return made


@sound()
def early_exits() -> Iterator[Monitor]:
    """Deep supervision: the losses of all exits together, in bfloat16, two batches a step."""
    x, y = digits()
    model: Any = Exits()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    for _ in range(6):
        for i, (inputs, labels) in enumerate(batches(32, x, y)):
            with torch.autocast("cpu", torch.bfloat16):
                loss = sum(F.cross_entropy(made, labels) for made in model(inputs))
            model.monitor.log("loss", loss)
            (loss / 2).backward()
            if i % 2:
                model.monitor.track(step)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                yield model.monitor


class Tuned(nn.Module):
    """A backbone whose batch norms stay in evaluation mode, as detectors keep them."""

    def __init__(self, backbone: nn.Sequential, classes: int, unfrozen: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(32, classes)
        for layer in list(backbone)[: len(backbone) - unfrozen]:
            layer.requires_grad_(False)

    def train(self, mode: bool = True) -> Tuned:
        """Sets the mode of all but batch norms."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.head(self.backbone(x))


@sound({}, {"unfrozen": 5}, {"unfrozen": 11})
def fine_tuned(unfrozen: int = 0) -> Iterator[Monitor]:
    """A trained backbone with a new head: frozen, in part, or at a tenth of the head's rate."""
    x, y = digits()
    x = (x - x.mean()) / x.std()
    trained, known = small_cnn(5), y < 5
    before = torch.optim.Adam(trained.parameters(), lr=3e-3)
    for _ in range(3):
        for inputs, labels in batches(64, x[known], y[known]):
            before.zero_grad()
            F.cross_entropy(trained(inputs), labels).backward()
            before.step()
    model: Any = Tuned(deepcopy(trained[:-1]), 5, unfrozen)
    groups = [{"params": model.head.parameters(), "lr": 1e-3}]
    if unfrozen:
        slow = [p for p in model.backbone.parameters() if p.requires_grad]
        groups.append({"params": slow, "lr": 1e-4})
    optimizer = torch.optim.AdamW(groups)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    for _ in range(5):
        model.train()
        for inputs, labels in batches(32, x[~known], y[~known] - 5):
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            step += 1
            yield model.monitor
        model.eval()
        with torch.inference_mode():
            model(x[:200])
