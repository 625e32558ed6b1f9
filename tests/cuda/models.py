"""Small models of several kinds, and how they are trained."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx
from taiyi_fx import MonitorWarning


class Rows(nn.Module):
    """Linear layers alone, with a rectifier in place."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.act = nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(inplace=True)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.act(self.norm(self.first(x))))


class Python(Rows):
    """Stays Python, as it asks for what an argument is."""

    def forward(self, x, mask=None):
        if mask is not None:
            x = x * mask
        return super().forward(x)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.act = nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(inplace=True)
        self.pool, self.fc = nn.AvgPool2d(4), nn.Linear(32, 3)

    def forward(self, x):
        y = self.act(self.bn1(self.conv1(x)))
        y = self.act(self.conv2(y).add_(y))
        return self.fc(self.pool(y).flatten(1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.drop, self.mlp = nn.Dropout(0.1), nn.Sequential(nn.Linear(16, 32), nn.GELU())
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, t, 3, 2, d // 2).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(n, t, d)))
        return self.head(self.mlp(x)).mean(1)


class Recurrent(nn.Module):
    """An LSTM, which on a GPU is one call of cuDNN, and a GRU cell by hand."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(16, 8, num_layers=2, batch_first=True, dropout=0.1)
        self.cell, self.head = nn.GRUCell(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        y, _ = self.lstm(x)
        h = y.new_zeros(len(y), 8)
        for step in y.unbind(1):
            h = self.cell(step, h)
        return self.head(h)


class Words(nn.Module):
    """A tied embedding, torch's attention, and a block that backward runs again."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 16)
        self.attention = nn.MultiheadAttention(16, 2, dropout=0.1, batch_first=True)
        self.block = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 16))
        self.head = nn.Linear(16, 12, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        words = x[..., 0].mul(4).long().abs().clamp(max=11)
        h = self.embedding(words)
        h = h + self.attention(h, h, h, need_weights=False)[0]
        return self.head(checkpoint(self.block, h, use_reentrant=False)).mean(1)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "rows": (Rows, (8, 6)),
    "python": (Python, (8, 6)),
    "images": (Images, (4, 3, 8, 8)),
    "attention": (Attention, (4, 5, 16)),
    "recurrent": (Recurrent, (4, 5, 16)),
    "words": (Words, (4, 5, 16)),
}
ONE_GRAPH = [name for name in MODELS if name != "recurrent"]
"""Those that torch compiles as one graph: to it, an LSTM is code that it does not trace."""

CFG = {
    lambda name, module: next(module.children(), None) is None and "out_proj" not in name: [
        "InputSndNorm",
        "OutputRMS",
        "NonFinite",
        "OutputGradSndNorm",
        ["InputCovMaxEig", "every(2)"],
    ],
    nn.Linear: ["WeightNorm", "WeightGradNorm", "ParameterUpdateNorm"],
}


EACH_STEP = {
    lambda name, module: isinstance(module, nn.Linear) and "out_proj" not in name: [
        "InputSndNorm",
        "OutputGradSndNorm",
        "WeightGradNorm",
    ]
}
"""The same is due at each step, so that one compiled graph is enough."""


def instrumented(model: nn.Module, cfg=CFG) -> taiyi_fx.InstrumentedModule:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        return taiyi_fx.instrument(model, cfg)


def pair(name: str, device, cfg=CFG) -> tuple[nn.Module, taiyi_fx.InstrumentedModule, list[Tensor]]:
    """A plain model, the same instrumented, and three batches."""
    make, shape = MODELS[name]
    plain = device.move(make())
    return plain, instrumented(copy.deepcopy(plain), cfg), [device.randn(*shape) for _ in range(3)]


def trained(model: nn.Module, run: Callable[[Tensor], Tensor], xs: list[Tensor]) -> list[Tensor]:
    """Everything that some steps and an evaluation leave behind."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    left = []
    for step, x in enumerate(xs):
        optimizer.zero_grad()
        y = run(x)
        y.square().mean().backward()
        if isinstance(model, taiyi_fx.InstrumentedModule):
            model.monitor.track(step)
        # Copies, as a CUDA graph that runs again writes into the same memory.
        left += [y.detach(), *(p.grad.clone() for p in model.parameters())]
        optimizer.step()
    model.eval()
    with torch.no_grad():
        left.append(run(xs[0]))
    model.train()
    return [*left, *model.parameters(), *model.buffers()]


def assert_same_bits(expected: list[Tensor], found: list[Tensor]) -> None:
    assert len(expected) == len(found)
    for i, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert a.dtype == b.dtype
        assert a.stride() == b.stride()
        assert torch.equal(a, b), f"result {i}: {(a - b).abs().max()}"


def records_of(model: taiyi_fx.InstrumentedModule) -> dict[tuple[int, str, str], float]:
    return {(r.step, r.module, r.quantity): r.value for r in model.monitor.records}
