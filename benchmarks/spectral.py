"""What a spectral quantity of a wide layer adds to a training step, beside its covariance product.

One wide linear layer, plain and instrumented models interleaved step by step, wall time, one
thread for the training. Eigenvalues are computed by a thread of their own, so a due step should
take the product longer, and the steps after it as long as ever.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import taiyi_fx

QUANTITIES = (
    "InputCovMaxEig",
    "InputCovStableRank",
    "InputCovCondition",
    "FisherCondition",
    "RankMe",
)
EVERY = 10


def main(features: int, rows: int, rounds: int) -> None:
    """Prints a line for each quantity."""
    torch.set_num_threads(1)
    x = torch.randn(rows, features)
    product = median_of(lambda: torch.cov(x.T))
    covariance = torch.cov(x.T).double()
    spectrum = median_of(lambda: torch.linalg.eigvalsh(covariance), 3)
    print(f"{rows} x {features}: covariance {product:.0f} ms, its eigenvalues {spectrum:.0f} ms")
    print(f"{'quantity':20}{'due step':>10}{'/ covariance':>14}{'step after':>12}{'not due':>10}")
    for name in QUANTITIES:
        due, after, idle = map(statistics.median, measured(name, x, rounds))
        print(f"{name:20}{due:+7.0f} ms{due / product:14.2f}{after:+9.0f} ms{idle:+7.0f} ms")


def measured(name: str, x: torch.Tensor, rounds: int) -> tuple[list[float], ...]:
    """Milliseconds over the plain step: at due steps, the next, and others."""
    layer = nn.Linear(x.shape[1], x.shape[1])
    plain, probed = nn.Sequential(layer), nn.Sequential(layer)
    model = taiyi_fx.instrument(probed, {"0": [[name, f"linear({EVERY}, 1)"]]})
    due: list[float] = []
    after: list[float] = []
    idle: list[float] = []
    for step in range(rounds * EVERY + 1):
        of_plain = timed(functools.partial(train, plain, x))
        of_probed = timed(functools.partial(train, model, x, step))
        {1: due, 2: after}.get(step % EVERY, idle).append(of_probed - of_plain)
        if step % EVERY == EVERY - 1:
            _ = model.monitor.records  # nothing is left for the next round
    return due, after, idle


def train(model: nn.Module, x: torch.Tensor, step: int | None = None) -> None:
    """One step without an optimizer."""
    model.zero_grad()
    model(x).square().mean().backward()
    if step is not None:
        model.monitor.track(step)


def median_of(run: Callable[[], object], times: int = 5) -> float:
    """Median milliseconds."""
    run()
    return statistics.median(timed(run) for _ in range(times))


def timed(run: Callable[[], object]) -> float:
    """Milliseconds of a call."""
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=2048)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=4)
    asked = parser.parse_args()
    main(asked.features, asked.rows, asked.rounds)
