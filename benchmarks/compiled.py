"""What watching costs in compiled code: of a step, and of the compiler's time.

Run it from the root of the repository; times are of the process on the CPU, one thread:

    python -m benchmarks.compiled [steps] [compiler] [--quick]
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch._inductor import config
from torch._inductor.utils import fresh_inductor_cache

import taiyi_fx
from benchmarks.overhead.models import mlp
from benchmarks.overhead.ratios import ratio_cell
from benchmarks.overhead.rounds import interleaved
from benchmarks.overhead.tools import Watched
from benchmarks.overhead.training import Training
from benchmarks.overhead.work import NORMS

TWO = NORMS[:2]
"""The norms of a layer's input and of its output's gradient, which compiled code computes."""
_LAYERS = 48


def steps(*, quick: bool) -> Iterator[str]:
    """Steps of 20 layers, over those of the compiled plain model [quartiles]."""
    yield "layers, readings of each, ratio; twice plain shows the noise"
    sizes = ((8, 8, 4),) if quick else ((32, 64, 600), (256, 512, 80))
    for width, rows, rounds in sizes:
        batch = torch.randn(rows, width), torch.randint(width, (rows,))
        asked = {"none": (), "none again": (), "two": TWO, "four": NORMS}
        trainings = {name: _training(width, of, batch) for name, of in asked.items()}
        for training in trainings.values():
            training.run(4)
        spent = interleaved(trainings, rounds)
        base, *others = ([one.compute for one in of] for of in spent.values())
        yield f"  20 of {width}, none: {statistics.median(base) / 1e6:.2f} ms"
        for name, of in zip(list(asked)[1:], others, strict=True):
            yield f"  20 of {width}, {name}: {ratio_cell(of, base)}"


def compiler(*, quick: bool) -> Iterator[str]:
    """The time in which layers are compiled, forward and backward, and the guards checked after."""
    count = 4 if quick else _LAYERS
    for backend in ("aot_eager",) if quick else ("aot_eager", "inductor"):
        for asked in ((), TWO):  # imports what they need
            _compiled(1, asked, backend)
        turns = [(_compiled(count, (), backend), _compiled(count, TWO, backend)) for _ in range(3)]
        ((_, guards), (_, more)) = turns[0]
        plain = statistics.median(seconds for (seconds, _), _ in turns)
        ratio = statistics.median(ours / own for (own, _), (ours, _) in turns)
        yield (
            f"{backend}, {count} layers: plain {plain:.1f} s, {guards} guards; with two readings "
            f"each {ratio:.2f} times as long, {more / guards:.2f} times as many"
        )


def _training(
    width: int, asked: Sequence[str], batch: tuple[torch.Tensor, torch.Tensor]
) -> Training:
    torch.manual_seed(0)
    model: Any = mlp(width)
    if asked:
        model = taiyi_fx.instrument(model, {nn.Linear: [*asked]})
    compiled: Any = torch.compile(model, fullgraph=True)
    watched = Watched(compiled, model.monitor.track) if asked else Watched(compiled)
    return Training(watched, batch)


def _compiled(count: int, asked: Sequence[str], backend: str) -> tuple[float, int]:
    """Seconds of the CPU for the first step, and the number of guards."""
    torch.compiler.reset()
    guards: list[int] = []

    def counted(entries: Sequence[Any]) -> list[bool]:
        guards.append(len(entries))
        return [True] * len(entries)

    model: nn.Module = nn.Sequential(*(nn.Linear(32, 32) for _ in range(count)))
    if asked:
        model = taiyi_fx.instrument(model, {nn.Linear: [*asked]})
    made = torch.compile(
        model, backend=backend, fullgraph=True, options={"guard_filter_fn": counted}
    )
    began = _seconds()
    # What the compiler of C++ takes is counted once it has ended: one at a time. Of what an earlier
    # run has kept, as that compiler's results, nothing is taken.
    with fresh_inductor_cache(), config.patch(compile_threads=1, fx_graph_cache=False):
        made(torch.randn(8, 32)).sum().backward()
    return _seconds() - began, sum(guards)


def _seconds() -> float:
    """Of this process and its children on the CPU."""
    taken = os.times()
    return taken.user + taken.system + taken.children_user + taken.children_system


_ALL = {measure.__name__: measure for measure in (steps, compiler)}


def main() -> None:
    """Measures what the command line names, or everything."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiled", description=summary)
    parser.add_argument("what", nargs="*", choices=[*_ALL, []], help="default: all")
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for name in asked.what or _ALL:
        print(f"{name}: {(_ALL[name].__doc__ or '').splitlines()[0]}")
        for line in _ALL[name](quick=asked.quick):
            print(f"  {line}", flush=True)


if __name__ == "__main__":
    main()
