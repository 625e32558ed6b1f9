"""Reading gradients of inputs leaves the order in which backward adds up, and so every bit."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx

D = 6


class ManyUses(nn.Module):
    """Uses its input four times, once of them twice in one operation."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(D, D) for _ in range(3))

    def forward(self, x):
        return self.a(x) * self.b(x) + torch.tanh(self.c(x)) + x * x


class ManyUsesInPython(ManyUses):
    def forward(self, x):
        if x.abs().sum() < 0:
            return x
        return super().forward(x)


class Residual(nn.Module):
    def __init__(self, body=ManyUses):
        super().__init__()
        self.norm, self.body, self.gate = nn.LayerNorm(D), body(), nn.Linear(D, D)

    def forward(self, x):
        before = torch.sigmoid(x)
        return x + self.body(self.norm(x)) * self.body(x) * before + self.gate(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.q, self.k, self.v = (
            nn.MultiheadAttention(D, 2, batch_first=True),
            *(nn.Linear(D, D) for _ in range(3)),
        )

    def forward(self, x):
        y = self.attention(x, x, x, need_weights=False)[0] + x
        return F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y)) + y


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.lstm = nn.LSTMCell(D, D), nn.LSTM(D, D, batch_first=True)

    def forward(self, x):
        state = None
        for _ in range(3):
            state = self.cell(x[:, 0], state)
        return self.lstm(x, (state[0][None], state[1][None]))[0] + x


class ChangesItsInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(D, D)

    def forward(self, x):
        y = x.sum(-1, keepdim=True) + x
        x.mul_(0.5)
        return self.fc(y * x)


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.changes, self.act, self.fc = ChangesItsInput(), nn.ReLU(inplace=True), nn.Linear(D, D)

    def forward(self, x):
        h = x * 1
        y = self.changes(h)
        return self.act(self.fc(h) + y) + h


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        self.flat, self.fc, self.uses = nn.Flatten(0, 1), nn.Linear(D, D), ManyUses()

    def forward(self, x):
        h = self.fc(x)
        y = self.uses(self.flat(h)) + self.uses(h.view(-1, D))
        return y.view_as(h) + self.uses(h.transpose(0, 1)).transpose(0, 1) + h


class HandsOn(nn.Module):
    def __init__(self):
        super().__init__()
        self.same, self.drop, self.uses = nn.Identity(), nn.Dropout(0.0), ManyUses()

    def forward(self, x):
        h = torch.tanh(x)
        return self.drop(self.uses(self.same(h))) + h + self.uses(h)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Residual()

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False) * x + x


class Shapes(nn.Module):
    """Broadcasts its input, and computes in another type."""

    def forward(self, x):
        y = x[:, :1]
        return self.part(y) + x

    def __init__(self):
        super().__init__()
        self.part = Broadcast()


class Broadcast(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(4, D))

    def forward(self, x):
        return x * self.bias + (x.double() * self.bias).float() + x


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Residual(), nn.Sequential(Residual(ManyUsesInPython)))

    def forward(self, x):
        return self.blocks(x) + x


BLOCKS = [
    ManyUses,
    ManyUsesInPython,
    Residual,
    Attention,
    Cells,
    InPlace,
    Views,
    HandsOn,
    Checkpointed,
    Shapes,
    Nested,
]
blocks = pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.__name__)


class Model(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.first, self.block, self.last = nn.Linear(D, D), block(), nn.Linear(D, D)

    def forward(self, x):
        h = self.first(x)
        return self.last(self.block(h)) + h


def made(block):
    torch.manual_seed(0)
    return Model(block)


def batch(seed, dtype=torch.float32):
    """Numbers of very different sizes: sums in another order differ."""
    torch.manual_seed(seed)
    return (torch.randn(3, 4, D) * torch.exp(3 * torch.randn(3, 4, D))).to(dtype)


def trained(model, run, seed, backwards=1):
    """The output of a step and all gradients that it leaves."""
    model.zero_grad()
    x = batch(seed, next(model.parameters()).dtype).requires_grad_()
    torch.manual_seed(seed)
    y = run(x)
    loss = (y * torch.exp(torch.linspace(-6, 6, y.numel())).view_as(y)).sum()
    for i in range(backwards):
        loss.backward(retain_graph=i + 1 < backwards)
    return [y.detach(), x.grad, *(p.grad for p in model.parameters() if p.grad is not None)]


def assert_same_bits(expected, found):
    for a, b in zip(expected, found, strict=True):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize("cfg", [["BackwardInput"], ["BackwardInput", "OutputGradSndNorm"]])
@pytest.mark.parametrize("backwards", [1, 2])
@blocks
def test_gradients_keep_every_bit(block, backwards, cfg):
    plain = made(block)
    model = copy.deepcopy(plain)
    probed = taiyi_fx.instrument(model, {nn.Module: cfg})
    for step in range(3):
        expected = trained(plain, plain, step, backwards)
        assert_same_bits(expected, trained(model, probed, step, backwards))
        probed.monitor.track(step)


def by_views(model, seed):
    """Gradients of inputs, read at a view that each call is given, as they are defined."""
    found, calls, handles = {}, {}, []

    def watch(name, module):
        def before(_, args):
            call = calls[name] = calls.get(name, -1) + 1
            if torch._C._current_graph_task_id() != -1 or not args[0].requires_grad:
                return None
            if isinstance(module, ChangesItsInput):  # whatever follows uses what it made of it
                node = args[0].grad_fn
                node.register_prehook(lambda gs: found.update({(name, call): gs[0].clone()}))
                return None
            view = args[0][...]
            view.register_hook(lambda g: found.update({(name, call): g.clone()}))
            return tuple(view if a is args[0] else a for a in args)

        handles.append(module.register_forward_pre_hook(before))

    for name, module in model.named_modules():
        watch(name, module)
    trained(model, model, seed)
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@blocks
def test_what_is_read_is_the_gradient_of_this_calls_uses(block):
    plain = made(block).double()
    model = copy.deepcopy(plain)
    probed = taiyi_fx.instrument(model, {nn.Module: ["BackwardInput"]})
    expected = by_views(plain, 1)
    trained(model, probed, 1)
    probed.monitor.track(0)
    found = {
        (name.partition("@")[0], int(name.partition("@")[2] or 0)): values["BackwardInput"][0]
        for name, values in probed.monitor.get_output().items()
    }
    all_uses = {("block.same", 0), ("block.drop", 0)}  # they hand on their very input
    for site, g in expected.items():
        if site not in all_uses:
            torch.testing.assert_close(found[site], g, rtol=1e-9, atol=1e-9)
    assert found.keys() >= expected.keys()
