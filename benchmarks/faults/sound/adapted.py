"""Trainings of models that were trained before: adapters, teachers, preferences, thawing."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx
from benchmarks.faults.sound.made_data import walks
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor

WORDS = 40


class Layer(nn.Module):
    """Attention and two layers, each behind a norm and beside the stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q_proj, self.k_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.v_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of `x`."""
        y = self.norm_1(x)
        q, k, v = (
            proj(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out_proj(y.transpose(1, 2).flatten(2))
        return x + self.fc2(F.relu(self.fc1(self.norm_2(x))))


class Model(nn.Module):
    """A causal language model; of embeddings, too."""

    def __init__(self, width: int = 32, heads: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(WORDS, width), nn.Embedding(64, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (samples, time, words)."""
        return self.head(self.states(self.tokens(ids)))

    def states(self, x: Tensor) -> Tensor:
        """The last states of embedded words."""
        x = x + self.places(torch.arange(x.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def pretrained(model: nn.Module, steps: int = 60) -> nn.Module:
    """The model, trained for a while on texts, without watch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        text = walks(16, 17, WORDS)
        F.cross_entropy(model(text[:, :-1]).transpose(1, 2), text[:, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def turned(samples: int, time: int) -> Tensor:
    """Texts of another kind than those before: each word is followed by one before it."""
    return WORDS - 1 - walks(samples, time, WORDS)


class LoRA(nn.Module):
    """A frozen layer, and beside it a product of two thin matrices of which one begins at 0."""

    def __init__(self, base: nn.Linear, rank: int = 4, alpha: float = 8.0) -> None:
        super().__init__()
        self.base, self.scale, self.dropout = base, alpha / rank, nn.Dropout(0.05)
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        """As the layer's."""
        return self.base(x) + self.scale * self.dropout(x) @ self.lora_a.T @ self.lora_b.T


@sound({}, {"samples": 16, "time": 16, "rank": 16}, {"rank": 1})
def lora_by_hand(samples: int = 8, time: int = 20, rank: int = 4) -> Iterator[Monitor]:
    """LoRA of queries and values of a frozen language model, as in its paper."""
    model: Any = pretrained(Model()).requires_grad_(False)
    for layer in model.layers:
        layer.q_proj, layer.v_proj = LoRA(layer.q_proj, rank), LoRA(layer.v_proj, rank)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-3, weight_decay=0.0)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(100):
        text = turned(samples, time + 1)
        loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
        yield model.monitor


class Prompted(nn.Module):
    """Vectors before the embedded words of a frozen model are all that is learnt."""

    def __init__(self, base: Model, length: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        words = base.tokens.weight[torch.randint(WORDS, (length,))]
        self.prompt = nn.Parameter(words.detach().clone())

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (samples, time, words)."""
        prompt = self.prompt.expand(len(ids), -1, -1)
        states = self.base.states(torch.cat([prompt, self.base.tokens(ids)], 1))
        return self.base.head(states[:, len(self.prompt) :])


@sound({}, {"length": 16, "samples": 16})
def prompt_tuning(samples: int = 12, length: int = 8) -> Iterator[Monitor]:
    """Soft prompts (arXiv 2104.08691), by Adam at a high rate."""
    base: Any = pretrained(Model())
    model: Any = Prompted(base, length)
    optimizer = torch.optim.Adam([model.prompt], lr=0.01)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(100):
        text = (torch.randint(WORDS, (samples, 1)) + 2 * torch.arange(17)) % WORDS
        loss = F.cross_entropy(model(text[:, :-1]).transpose(1, 2), text[:, 1:])
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Adapter(nn.Module):
    """A layer, then a bottleneck beside the stream that begins near nothing (arXiv 1902.00751)."""

    def __init__(self, layer: nn.Module, width: int, narrow: int = 8) -> None:
        super().__init__()
        self.layer = layer
        self.down, self.up = nn.Linear(width, narrow), nn.Linear(narrow, width)
        for linear in (self.down, self.up):
            nn.init.normal_(linear.weight, std=1e-3)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """As the layer's."""
        x = self.layer(x)
        return x + self.up(F.gelu(self.down(x)))


@sound()
def adapters() -> Iterator[Monitor]:
    """Houlsby's adapters: they, the norms and the head are trained, all else is frozen."""
    model: Any = pretrained(Model())
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("norm" in name or "head" in name)
    model.layers = nn.ModuleList(Adapter(layer, 32) for layer in model.layers)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(100):
        text = turned(12, 17)
        loss = F.cross_entropy(model(text[:, :-1]).transpose(1, 2), text[:, 1:])
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


@sound()
def gradual_unfreezing() -> Iterator[Monitor]:
    """ULMFiT's tuning: a layer more each thirty steps, from the last on, lower layers slower."""
    model: Any = pretrained(Model())
    model.head = nn.Linear(32, 4)
    parts = [model.head, model.norm, *reversed(model.layers), model.places, model.tokens]
    model.requires_grad_(False)
    groups = [
        {"params": list(part.parameters()), "lr": 2e-3 / 1.5**depth}
        for depth, part in enumerate(parts)
    ]
    optimizer = torch.optim.AdamW(groups)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(150):
        for part in parts[: 2 + step // 30]:
            part.requires_grad_(True)
        ids = walks(16, 12, WORDS)
        loss = F.cross_entropy(model(ids)[:, -1], ids[:, -1] // 10)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


@sound({}, {"samples": 4, "temperature": 4.0})
def distillation(samples: int = 12, temperature: float = 2.0) -> Iterator[Monitor]:
    """A smaller student learns what a frozen teacher says, softened, and the words themselves."""
    teacher = pretrained(Model()).eval().requires_grad_(False)
    student: Any = Model(16, 2, 2)
    optimizer = torch.optim.AdamW(student.parameters(), lr=2e-3)
    student = taiyi_fx.instrument(student, optimizer=optimizer)
    for step in range(120):
        text = walks(samples, 17, WORDS)
        with torch.no_grad():
            told = teacher(text[:, :-1])
        logits = student(text[:, :-1])
        soft = F.kl_div(
            F.log_softmax(logits / temperature, -1).flatten(0, 1),
            F.softmax(told / temperature, -1).flatten(0, 1),
            reduction="batchmean",
        )
        hard = F.cross_entropy(logits.transpose(1, 2), text[:, 1:])
        loss = 0.7 * temperature**2 * soft + 0.3 * hard
        optimizer.zero_grad()
        student.monitor.log("loss", loss)
        loss.backward()
        student.monitor.track(step)
        optimizer.step()
        yield student.monitor


def likelihood(model: nn.Module, text: Tensor) -> Tensor:
    """Of each row, the logarithm of what the model gives its answer."""
    said = model(text[:, :-1]).log_softmax(-1).gather(2, text[:, 1:, None]).squeeze(2)
    return said[:, 5:].sum(-1)


@sound({}, {"samples": 1}, {"micro_batches": 2})
def preferences(samples: int = 8, micro_batches: int = 1) -> Iterator[Monitor]:
    """DPO (arXiv 2305.18290): a policy and what it was before, which is frozen."""
    model: Any = pretrained(Model())
    reference = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(80):
        for _ in range(micro_batches):
            begin = walks(samples, 6, WORDS)
            chosen = torch.cat([begin, begin[:, -1:] + torch.arange(1, 9)], 1) % WORDS
            rejected = torch.cat([begin, begin[:, -1:] + 2 * torch.arange(1, 9)], 1) % WORDS
            both = torch.cat([chosen, rejected])
            with torch.no_grad():
                before = likelihood(reference, both)
            gain = likelihood(model, both) - before
            better, worse = gain.chunk(2)
            loss = -F.logsigmoid(0.1 * (better - worse)).mean()
            model.monitor.log("loss", loss)
            (loss / micro_batches).backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        yield model.monitor
