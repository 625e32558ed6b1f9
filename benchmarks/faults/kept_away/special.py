"""Mistakes in mixtures of experts, adapters, loaded backbones and functions of one's own."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, held_out
from benchmarks.faults.models import MoE, Router
from benchmarks.faults.own.digits import Backbone, pretrained
from benchmarks.faults.own.rows import Activated
from benchmarks.faults.own.training import Figure, normal, train
from benchmarks.faults.training import Training

# Mixtures of experts


@held_out(
    "moe",
    "*router*",
    kinds="untaught_router|unbalanced_router|router_collapse|dead_experts|detached",
)
def balance_of_detached_gates(t: Training, *, mended: bool = False) -> Figure:
    """The balancing loss is of gates.clone().detach(): a number, and no teacher.

    yushuiwx/Mixture-of-LoRA-Experts#8, huggingface/transformers#28093
    """

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        balance = model.get_submodule("").balance()  # type: ignore[operator]
        (loss + 0.05 * (balance if mended else balance.detach())).backward()
        return loss

    t.backward, t.steps = backward, 60
    with torch.no_grad():
        for module in t.model.modules():
            if isinstance(module, Router):
                module.linear.weight[0] += 0.3

    def figure(net: MoE) -> float:  # type: ignore[override]
        """The balancing loss of fresh text, 2 if experts are equally busy."""
        with torch.no_grad():
            net(data.text(900)[0])
            return float(net.balance()) - 1.9

    return figure


# Loaded weights and adapters


def _of_images(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(net(x), y)


@held_out("cnn resnet", "backbone*", kinds="untrained_backbone")
def weights_of_a_data_parallel_model(t: Training, *, mended: bool = False) -> None:
    """strict=False loads nothing: names begin with "module.", and the backbone is frozen.

    stefanopini/simple-HRNet#79, yangyiliu21/ntire2023_ITBdehaze#8,
    bearpaw/pytorch-classification#35
    """
    prefix = "" if mended else "module."
    state = {prefix + name: v for name, v in pretrained().items() if name.startswith("backbone")}
    net = Backbone()
    net.load_state_dict(state, strict=False)
    net.backbone.requires_grad_(False)
    if t.names["first"].startswith("stem"):
        net.fc = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 10))
    train(t, net, _of_images, lr=1e-2)


class LoRALinear(nn.Module):
    """A frozen layer and a product of two small matrices beside it.

    Args:
        base: The layer.
        scaling: What the product is multiplied by.
        zero: Whether the first matrix begins with zeros as the second does.
    """

    def __init__(self, base: nn.Linear, scaling: float = 2.0, *, zero: bool = False) -> None:
        super().__init__()
        self.base, self.scaling = base, scaling
        self.lora_A = nn.Linear(base.in_features, 8, bias=False)
        self.lora_B = nn.Linear(8, base.out_features, bias=False)
        nn.init.zeros_(self.lora_B.weight)
        if zero:
            nn.init.zeros_(self.lora_A.weight)

    def forward(self, x: Tensor) -> Tensor:
        """What the layer makes, and a correction."""
        return self.base(x) + self.scaling * self.lora_B(self.lora_A(x))


class Rows(nn.Module):
    """Three layers for rows."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 5)."""
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


@cache
def learnt_rows() -> dict[str, Tensor]:
    """The state of a net that has learnt the teacher's rows."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        net = Rows()
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
        for step in range(200):
            x, y = data.rows(30_000 + step)
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
    return {name: value.clone() for name, value in net.state_dict().items()}


def _adapted(t: Training, scaling: float = 2.0, *, zero: bool = False) -> Rows:
    """A net that has learnt rows and has to learn them with other classes, by adapters."""
    net = Rows()
    net.load_state_dict(learnt_rows())
    net.requires_grad_(False)
    for name in ("fc1", "fc2", "fc3"):
        setattr(net, name, LoRALinear(net.get_submodule(name), scaling, zero=zero))  # type: ignore
    train(t, net, _of_images, lr=3e-3)
    t.optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=3e-3)
    t.change_batch(lambda step, x, y: (x.roll(3, 1), y))
    return net


@held_out(
    "mlp", "*lora*", "fc?", kinds="zero_gradient|zero_output|zero_weight|odd_start|idle_branch"
)
def both_matrices_of_adapters_are_zero(t: Training, *, mended: bool = False) -> None:
    """No training: weights are initialised behind the adapters, and lora_A is zero, too.

    nvidia-cosmos/cosmos-predict2.5#15, NovaSky-AI/SkyRL#852
    """
    _adapted(t, zero=not mended)


@held_out("mlp", "*lora*", "fc?", kinds="large_steps|outlier|^growth")
def alpha_that_is_not_divided_by_the_rank(t: Training, *, mended: bool = False) -> None:
    """The scale of adapters is alpha and not alpha / rank, so that defaults are useless.

    Blaizzy/mlx-vlm#841, rasbt/LLMs-from-scratch#821
    """
    alpha, rank = 64.0, 8
    _adapted(t, alpha / rank if mended else alpha)
    for group in t.optimizer.param_groups:
        group["lr"] = 2e-3


@held_out("mlp", "*lora*", "fc?", kinds="frozen_adapters|missing_gradient|no_update")
def adapters_loaded_for_inference(t: Training, *, mended: bool = False) -> None:
    """Trainable params: 0, but for a new head: adapters are loaded without is_trainable=True.

    tloen/alpaca-lora#352
    """
    net = _adapted(t)
    if not mended:
        net.requires_grad_(False)
    net.fc3 = nn.Linear(64, 5)  # type: ignore[assignment]
    t.optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=3e-3)


@held_out("mlp", "*lora*", "fc?", kinds="no_update")
def optimizer_older_than_the_adapters(t: Training, *, mended: bool = False) -> None:
    """Adam was given the parameters that there were before the model was wrapped.

    fkodom/lora-pytorch#1
    """
    net = _adapted(t)
    if not mended:
        older = [p for name, p in net.named_parameters() if "lora" not in name]
        t.optimizer = torch.optim.Adam(older, lr=3e-3)


# Functions of one's own


class Round(torch.autograd.Function):
    """Rounds to eighths, and hands the gradient on as it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """The rounded numbers."""
        return torch.round(x * 8) / 8

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """The gradient."""
        return grads[0]


class Reverse(torch.autograd.Function):
    """Hands numbers on and turns their gradient round."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: float) -> Tensor:
        """The numbers."""
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """The gradient times less than nothing."""
        return grads[0].neg() * ctx.alpha, None


@held_out("mlp", "fc1", "fc2", kinds="zero_gradient|detached|missing_gradient|vanishing_gradient")
def rounding_without_a_straight_through(t: Training, *, mended: bool = False) -> None:
    """Activations are quantised by torch.round, whose derivative is 0 everywhere.

    Justin-Tan/generative-compression#27
    """

    def act(x: Tensor) -> Tensor:
        x = torch.tanh(x)
        return Round.apply(x) if mended else torch.round(x * 8) / 8

    train(t, Activated(act), _of_images, lr=3e-3)


class Domains(nn.Module):
    """Classes of rows, and the domain that they are of.

    Args:
        alpha: Of the layer that turns gradients round; None if there is none.
    """

    def __init__(self, alpha: float | None) -> None:
        super().__init__()
        self.alpha = alpha
        self.extractor = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 24))
        self.class_classifier, self.domain_classifier = nn.Linear(24, 5), nn.Linear(24, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of classes and of domains."""
        h = self.extractor(x)
        turned = h if self.alpha is None else Reverse.apply(h, self.alpha)
        return self.class_classifier(h), self.domain_classifier(turned).squeeze(1)


def two_domains(step: int) -> Batch:
    """Rows of which the second half is moved, and their classes."""
    x, y = data.rows(step)
    return torch.cat([x[:32], x[32:] + 0.5 * normal(-5, 16)]), y


def _domains(t: Training, net: Domains, theta: float) -> None:
    domain = (torch.arange(64) >= 32).float()

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        classes, domains = net(x)
        of_domains = F.binary_cross_entropy_with_logits(domains, domain)
        return F.cross_entropy(classes, y) + theta * of_domains

    train(t, net, loss, two_domains, lr=3e-3)
    t.steps = 200


@held_out("mlp", WHOLE, "domain_classifier", kinds="unbounded_loss|divergence|^growth|^drift")
def domain_loss_with_a_minus(t: Training, *, mended: bool = False) -> Figure:
    """Loss = class_loss - theta * domain_loss, which teaches the domain classifier to be wrong.

    CuthbertCai/pytorch_DANN#13
    """
    _domains(t, Domains(1.0 if mended else None), 0.5 if mended else -0.5)

    def figure(net: nn.Module) -> float:
        with torch.no_grad():
            return float(net(two_domains(900)[0])[1].abs().mean())

    return figure


class SafeNormalized(nn.Module):
    """Features that are divided by their length where there is one, which padding has not.

    Args:
        inner: Whether the length is made safe before it is divided by, too.
    """

    def __init__(self, *, inner: bool) -> None:
        super().__init__()
        self.inner = inner
        self.encode, self.fc = nn.Linear(16, 32, bias=False), nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 5)."""
        x = torch.tanh(self.encode(x))
        norm = x.pow(2).sum(1, keepdim=True)
        length = torch.where(norm == 0, 1.0, norm).sqrt() if self.inner else norm.sqrt()
        return self.fc(3 * torch.where(norm == 0, torch.zeros_like(x), x / length))


@held_out("mlp", "encode", kinds="non_finite")
def where_that_hides_a_division_by_zero(t: Training, *, mended: bool = False) -> None:
    """torch.where takes 0 where the length is 0, and the gradient is NaN all the same.

    pytorch/pytorch#16317, pytorch/pytorch#52248, pytorch/pytorch#18287
    """
    net = SafeNormalized(inner=mended)
    train(t, net, _of_images, lr=3e-3)
    t.change_batch(lambda step, x, y: (x * (torch.arange(64) % 8 > 0)[:, None], y))
