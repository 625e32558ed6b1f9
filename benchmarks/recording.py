"""The share of a GPT's training step that a flight recorder takes, in time and in memory.

Each round has one step of each training, in an order that changes; times are the process's, of one
thread, as shares of the plain step of the same round, and figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from torch import nn

import taiyi_fx
from benchmarks.overhead.memory import peak_of
from benchmarks.overhead.models import CASES, loss_of
from benchmarks.overhead.rounds import interleaved

Made = tuple[nn.Module, Callable[[int], None]]


class _Training:
    """A training of the GPT, step by step, as `interleaved` runs it."""

    def __init__(self, make: Callable[[nn.Module], Made], model: str) -> None:
        torch.manual_seed(0)
        case = CASES[model]
        plain, self.batch, self.step = case.build(), case.batch(), 0
        self._optimizer = torch.optim.AdamW(plain.parameters(), 1e-3)
        self._model, self._track = make(plain)
        instrumented = getattr(self._model, "_orig_mod", self._model)  # within what is compiled
        if instrumented is not plain:
            taiyi_fx.monitor_of(instrumented).watch_optimizer(self._optimizer)

    def run(self, steps: int) -> None:
        x, y = self.batch
        for _ in range(steps):
            loss_of(self._model(x), y).backward()
            self._track(self.step)
            self._optimizer.step()
            self._optimizer.zero_grad()
            self.step += 1


def _plain(model: nn.Module) -> Made:
    return model, lambda step: None


def _recorded(every: int) -> Callable[[nn.Module], Made]:
    def made(model: nn.Module) -> Made:
        recorder = taiyi_fx.Recorder(steps=20, every=every)
        one = taiyi_fx.instrument(model, {}, recorder=recorder)
        return one, one.monitor.track

    return made


def _kept(checkpoint_every: int) -> Callable[[nn.Module], Made]:
    def made(model: nn.Module) -> Made:
        recorder = taiyi_fx.Recorder(checkpoint_every=checkpoint_every)
        one = taiyi_fx.instrument(model, {}, recorder=recorder)
        return one, one.monitor.track

    return made


def _norms(model: nn.Module) -> Made:
    cfg = {nn.Module: ["OutputNorm", "OutputGradSndNorm"]}
    one = taiyi_fx.instrument(model, cfg)
    return one, one.monitor.track


def _compiled(make: Callable[[nn.Module], Made]) -> Callable[[nn.Module], Made]:
    def made(model: nn.Module) -> Made:
        one, track = make(model)
        return torch.compile(one), track  # pyright: ignore[reportReturnType]

    return made


WAYS = {
    "plain": _plain,
    "plain again": _plain,
    "recorded": _recorded(1),
    "recorded every 5": _recorded(5),
    "recorded every 10": _recorded(10),
    "kept every 1": _kept(1),
    "kept every 20": _kept(20),
}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recording", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--model", choices=CASES, default="gpt")
    parser.add_argument("--compiled", action="store_true", help="beside the compiled plain step")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    ways = {k: _compiled(v) if asked.compiled else v for k, v in WAYS.items()}
    trainings = {name: _Training(make, asked.model) for name, make in ways.items()}
    for training in trainings.values():
        training.run(10)
    spent = interleaved(trainings, asked.rounds)  # pyright: ignore[reportArgumentType]
    plain = [one.compute for one in spent["plain"]]
    print(f"plain step of {asked.model}: {statistics.median(plain) / 1e6:.1f} ms")
    peaks = {name: _peak(training) for name, training in trainings.items()}
    for name, found in spent.items():
        shares = [one.compute / base for one, base in zip(found, plain, strict=True)]
        low, middle, high = statistics.quantiles(shares, n=4)
        mean = sum(one.compute for one in found) / sum(plain)
        print(
            f"{name:18} median {middle:.3f} ({low:.3f} to {high:.3f}), mean {mean:.3f}, "
            f"peak of memory {peaks[name] / peaks['plain']:.4f}"
        )


def _peak(training: _Training) -> int:
    # By now a recorder has made the memory of its states, up to four of them, and uses it in turn.
    training.run(max(0, 100 - training.step))
    training.run(-training.step % 20)  # then all that is recorded now and then is due
    return peak_of(lambda: training.run(1), training.batch[0].device)


if __name__ == "__main__":
    main()
