"""A training whose steps are kept, and models that break at one of them."""

from contextlib import nullcontext

import torch
from torch import nn

from taiyi_fx.recorder.replay.keeper import StepKeeper
from taiyi_fx.recorder.replay.replayer import replay_step
from taiyi_fx.recorder.replay.rerun import Ways


class Net(nn.Module):
    """Two layers, with dropout, batch statistics, a counter, and something between them."""

    def __init__(self, between=None, at=3):
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.last = nn.Linear(4, 2)
        self.between, self.at, self.count = between, at, 0

    def forward(self, x):
        h = self.drop(self.norm(self.first(x)))
        if self.between is not None and self.count == self.at:
            h = self.between(h)
        self.count += 1
        return self.last(h)


def keeper_of(model, optimizer, every=1, limit=2**30, **options):
    def boundary(what):
        return nullcontext()

    optimizers = [] if optimizer is None else [optimizer]
    return StepKeeper(
        model, lambda: optimizers, boundary=boundary, every=every, limit=limit, **options
    )


class Kept:
    """A training of a model, its steps kept; stops as a gradient or a parameter breaks."""

    def __init__(
        self,
        model,
        optimizer=None,
        every=1,
        steps=6,
        before=lambda step, of: None,
        dtype=torch.float32,
    ):
        self.model, self.dtype = model, dtype
        self.batch_scale = self.loss_scale = 1.0
        self.optimizer = optimizer or torch.optim.Adam(model.parameters(), 0.01)
        self.keeper = keeper_of(model, self.optimizer, every)
        self.before = before
        for step in range(steps):
            self.step(step)
            if any(is_bad(x) for p in model.parameters() for x in (p, p.grad)):
                break
            self.optimizer.step()

    def step(self, step):
        x = torch.randn(8, 4, dtype=self.dtype)
        self.before(step, self)
        x = x * self.batch_scale
        call = self.keeper.begin_call(step, (x,), {}, is_compiled=False)
        y = self.model(x)
        self.keeper.end_call(call, y)
        self.optimizer.zero_grad()
        (y.square().mean() * self.loss_scale).backward()
        self.keeper.track(step)
        self.last = step

    def forward(self, args, kwargs):
        return self.model(*args, **kwargs)

    @property
    def ways(self):
        return Ways(self.forward)

    def replay(self, step=None):
        step = self.last if step is None else step
        found, self.steps = replay_step(
            step, [*self.keeper.steps], self.model, self.ways, [self.optimizer]
        )
        return found


def is_bad(x):
    return x is not None and not bool(x.isfinite().all())


def line_of(function, text):
    """The line of a function that has a text."""
    import inspect

    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)
