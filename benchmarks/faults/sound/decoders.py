"""Language models by hand: those of nanoGPT, Llama, ALiBi, T5's positions, experts, Muon, Lion."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx
from benchmarks.faults.sound.made_data import walks
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


class CausalAttention(nn.Module):
    """As in nanoGPT: one layer for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of `x`."""
        b, t, c = x.shape
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class GPTBlock(nn.Module):
    """Attention and two layers, each behind a norm and beside the stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = CausalAttention(width, heads)
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of `x`."""
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x))))


class NanoGPT(nn.Module):
    """GPT-2 as nanoGPT writes it, whose embedding is its last layer, too."""

    def __init__(self, words: int, width: int, heads: int, layers: int, *, thrifty: bool) -> None:
        super().__init__()
        self.thrifty = thrifty
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(64, width)
        self.h = nn.ModuleList(GPTBlock(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, words, bias=False)
        self.wte.weight = self.lm_head.weight
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1:
                is_last = name.endswith("c_proj.weight")
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * layers) if is_last else 1))

    def forward(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, and their loss."""
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = checkpoint(block, x, use_reentrant=False) if self.thrifty else block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def groups_of(model: nn.Module) -> list[dict[str, Any]]:
    """NanoGPT's two groups: matrices decay, gains and biases don't."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]


@sound(
    {},
    {"micro_batches": 4, "samples": 4, "steps": 50},
    {"narrow": True, "samples": 4, "steps": 50},
    {"thrifty": True, "samples": 6, "steps": 50},
    {"samples": 4, "time": 32, "width": 32, "heads": 4, "steps": 80},
)
def nano_gpt(
    samples: int = 12,
    time: int = 32,
    width: int = 48,
    heads: int = 3,
    steps: int = 120,
    micro_batches: int = 1,
    narrow: bool = False,
    thrifty: bool = False,
) -> Iterator[Monitor]:
    """The loop of nanoGPT: warm-up and cosine, accumulation, clipping, evaluated between."""
    words = 65
    model: Any = NanoGPT(words, width, heads, 4, thrifty=thrifty)
    optimizer = torch.optim.AdamW(groups_of(model), lr=1e-3, betas=(0.9, 0.99))
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(steps):
        share = (step - 10) / max(steps - 10, 1)
        rate = (step + 1) / 11 if step < 10 else 0.1 + 0.45 * (1 + math.cos(math.pi * share))
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * rate
        if step % 25 == 0:
            model.eval()
            with torch.no_grad():
                held_out = walks(samples, time + 1, words)
                model(held_out[:, :-1], held_out[:, 1:].contiguous())
            model.train()
        for _ in range(micro_batches):
            text = walks(samples, time + 1, words)
            with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
                _, loss = model(text[:, :-1].contiguous(), text[:, 1:].contiguous())
                loss = loss / micro_batches
            model.monitor.log("loss", loss * micro_batches)
            loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield model.monitor


class RMSNorm(nn.Module):
    """As in Llama."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of `x`."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotated(x: Tensor, angles: Tensor) -> Tensor:
    """Llama's positions: pairs of features are turned, each by an angle of its own."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * angles[: x.shape[1], None]).flatten(3).type_as(x)


class LlamaAttention(nn.Module):
    """Queries of which several share a key."""

    def __init__(self, width: int, heads: int, keys: int) -> None:
        super().__init__()
        self.heads, self.keys, self.size = heads, keys, width // heads
        self.wq = nn.Linear(width, heads * self.size, bias=False)
        self.wk = nn.Linear(width, keys * self.size, bias=False)
        self.wv = nn.Linear(width, keys * self.size, bias=False)
        self.wo = nn.Linear(heads * self.size, width, bias=False)

    def forward(self, x: Tensor, angles: Tensor, mask: Tensor) -> Tensor:
        """Of the shape of `x`."""
        b, t, _ = x.shape
        q = rotated(self.wq(x).view(b, t, self.heads, self.size), angles).transpose(1, 2)
        k = rotated(self.wk(x).view(b, t, self.keys, self.size), angles)
        v = self.wv(x).view(b, t, self.keys, self.size)
        k, v = (y.repeat_interleave(self.heads // self.keys, 2).transpose(1, 2) for y in (k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.size) + mask
        y = F.softmax(scores.float(), dim=-1).type_as(q) @ v
        return self.wo(y.transpose(1, 2).reshape(b, t, -1))


class SwiGLU(nn.Module):
    """As in Llama."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.w2 = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of `x`."""
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Experts(nn.Module):
    """Two of several experts for each token, as in Mixtral, and the loss that balances them."""

    def __init__(self, width: int, hidden: int, count: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(SwiGLU(width, hidden) for _ in range(count))
        self.balance = torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of `x`."""
        tokens = x.flatten(0, 1)
        shares = self.gate(tokens).softmax(-1)
        weights, chosen = shares.topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        load = F.one_hot(chosen, len(self.experts)).float().mean((0, 1))
        self.balance = len(self.experts) * (load * shares.mean(0)).sum()
        out = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            row, place = torch.where(chosen == i)
            out.index_add_(0, row, expert(tokens[row]) * weights[row, place, None])
        return out.view_as(x)


class LlamaBlock(nn.Module):
    """Attention and a gated layer, each behind a norm and beside the stream."""

    def __init__(self, width: int, heads: int, keys: int, feed_forward: nn.Module) -> None:
        super().__init__()
        self.attention = LlamaAttention(width, heads, keys)
        self.feed_forward = feed_forward
        self.attention_norm, self.ffn_norm = RMSNorm(width), RMSNorm(width)

    def forward(self, x: Tensor, angles: Tensor, mask: Tensor) -> Tensor:
        """Of the shape of `x`."""
        x = x + self.attention(self.attention_norm(x), angles, mask)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """As Meta's code has it."""

    def __init__(
        self, words: int, width: int, heads: int, keys: int, layers: int, *, experts: bool
    ) -> None:
        super().__init__()
        make = Experts if experts else SwiGLU
        self.tok_embeddings = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            LlamaBlock(width, heads, keys, make(width, 2 * width)) for _ in range(layers)
        )
        self.norm, self.output = RMSNorm(width), nn.Linear(width, words, bias=False)
        size = width // heads
        rates = 1.0 / 10000 ** (torch.arange(0, size, 2).float() / size)
        angles = torch.outer(torch.arange(64), rates)
        self.register_buffer("angles", torch.polar(torch.ones_like(angles), angles))

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits of (samples, time, words)."""
        t = ids.shape[1]
        mask = torch.full((t, t), float("-inf")).triu(1) if mask is None else mask
        x = self.tok_embeddings(ids)
        for layer in self.layers:
            x = layer(x, self.get_buffer("angles"), mask)
        return self.output(self.norm(x))


@sound(
    {},
    {"samples": 8, "time": 8, "heads": 8, "keys": 8, "width": 64, "words": 64},
    {"samples": 2, "time": 31, "keys": 1},
)
def llama(
    samples: int = 8,
    time: int = 24,
    width: int = 48,
    heads: int = 6,
    keys: int = 2,
    words: int = 60,
    steps: int = 120,
) -> Iterator[Monitor]:
    """Pretraining of a small Llama: AdamW, warm-up and cosine by torch's schedulers."""
    model: Any = Llama(words, width, heads, keys, 4, experts=False)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=2e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1
    )
    parts = [
        torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, total_iters=20),
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - 20, 2e-4),
    ]
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, parts, [20])
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(steps):
        text = walks(samples, time + 1, words)
        logits = model(text[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, words).float(), text[:, 1:].reshape(-1))
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        yield model.monitor


@sound({}, {"samples": 4, "time": 8, "steps": 60})
def llama_of_experts(samples: int = 8, time: int = 24, steps: int = 120) -> Iterator[Monitor]:
    """A small Mixtral by hand, with the loss that balances its experts."""
    model: Any = Llama(50, 32, 4, 2, 3, experts=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(steps):
        text = walks(samples, time + 1, 50)
        logits = model(text[:, :-1])
        cross_entropy = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        balance = sum(layer.feed_forward.balance for layer in model.layers) / 3
        loss = cross_entropy + 0.02 * balance
        model.monitor.log("loss", loss)
        model.monitor.log("cross_entropy", cross_entropy)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        yield model.monitor


@sound()
def prefix_language_model() -> Iterator[Monitor]:
    """A prefix is seen whole, and what follows is told word by word, as UniLM and T5's paper do."""
    model: Any = Llama(40, 32, 4, 4, 3, experts=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    mask = torch.full((24, 24), float("-inf")).triu(1)
    mask[:, :8] = 0
    for step in range(100):
        text = walks(12, 25, 40)
        logits = model(text[:, :-1], mask)
        targets = text[:, 1:].clone()
        targets[:, :7] = -100
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
        yield model.monitor


class BiasedAttention(nn.Module):
    """Attention whose scores have a bias by distance: ALiBi's slopes, or T5's, which are learnt."""

    def __init__(self, width: int, heads: int, *, is_learnt: bool) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * width, bias=False)
        self.to_out = nn.Linear(width, width)
        self.of_distance = nn.Embedding(16, heads) if is_learnt else None
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("slopes", slopes.view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of `x`."""
        b, t, _ = x.shape
        q, k, v = self.to_qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        place = torch.arange(t)
        distance = (place[:, None] - place[None]).clamp(min=0)
        if self.of_distance is None:
            bias = -self.get_buffer("slopes") * distance
        else:
            bias = self.of_distance(distance.clamp(max=15)).permute(2, 0, 1)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5 + bias
        scores = scores.masked_fill(place[None] > place[:, None], -torch.finfo(x.dtype).max)
        y = torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)
        return self.to_out(y.transpose(1, 2).flatten(2))


class BiasedModel(nn.Module):
    """A language model without positions but by such biases."""

    def __init__(self, words: int, width: int, heads: int, *, is_learnt: bool) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.LayerNorm(width),
                    BiasedAttention(width, heads, is_learnt=is_learnt),
                    nn.Sequential(
                        nn.LayerNorm(width),
                        nn.Linear(width, 4 * width),
                        nn.GELU(),
                        nn.Linear(4 * width, width),
                    ),
                ]
            )
            for _ in range(4)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (samples, time, words)."""
        x = self.embedding(ids)
        for norm, attention, mlp in self.layers:  # pyright: ignore
            x = attention(norm(x)) + x
            x = mlp(x) + x
        return self.head(self.norm(x))


class Lion(torch.optim.Optimizer):
    """Signs of averaged gradients, and decay (arXiv 2302.06675)."""

    def __init__(self, params: Any, lr: float = 1e-4, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.99), "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """One step."""
        for group in self.param_groups:
            first, second = group["betas"]
            for p in (p for p in group["params"] if p.grad is not None):
                average = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(average.lerp(p.grad, 1 - first).sign_(), alpha=-group["lr"])
                average.lerp_(p.grad, 1 - second)


@sound({}, {"is_learnt": True}, {"samples": 24, "time": 24, "width": 24, "heads": 3, "words": 24})
def biases_by_distance(
    samples: int = 12,
    time: int = 24,
    width: int = 32,
    heads: int = 4,
    words: int = 40,
    is_learnt: bool = False,
) -> Iterator[Monitor]:
    """ALiBi, or biases as T5 learns them, trained by Lion with a tenth of Adam's rate."""
    model: Any = BiasedModel(words, width, heads, is_learnt=is_learnt)
    optimizer = Lion(model.parameters(), lr=2e-4, weight_decay=0.5)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(120):
        text = walks(samples, time + 1, words)
        loss = F.cross_entropy(model(text[:, :-1]).transpose(1, 2), text[:, 1:])
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal by five steps of Newton and Schulz, as in modded-nanogpt."""

    def __init__(self, params: Any, lr: float = 0.02, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """One step."""
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                average = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                average.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonal(p.grad.lerp(average, group["momentum"]))
                scale = max(1, p.shape[0] / p.shape[1]) ** 0.5
                p.add_(update, alpha=-group["lr"] * scale)


def orthogonal(gradient: Tensor) -> Tensor:
    """A matrix whose singular values are near 1."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = gradient.T if gradient.shape[0] > gradient.shape[1] else gradient
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x.T if gradient.shape[0] > gradient.shape[1] else x


@sound()
def gpt_by_muon() -> Iterator[Monitor]:
    """Matrices of blocks by Muon, all else by AdamW, as in modded-nanogpt."""
    model: Any = NanoGPT(50, 48, 4, 4, thrifty=False)
    matrices = [p for p in model.h.parameters() if p.dim() == 2]
    known = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in known]
    optimizers = [
        Muon(matrices, lr=0.01),
        torch.optim.AdamW(others, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    model = taiyi_fx.instrument(model, optimizer=optimizers)
    for step in range(100):
        text = walks(12, 25, 50)
        _, loss = model(text[:, :-1].contiguous(), text[:, 1:].contiguous())
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        yield model.monitor
