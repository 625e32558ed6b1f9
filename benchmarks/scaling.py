"""How the cost of taiyi_fx grows: with sites, steps, parameters and ranks.

Run it from the root of the repository; times are of the process on the CPU, one thread:

    python -m benchmarks.scaling [sites] [steps] [parameters] [ranks] [--quick]
"""

from __future__ import annotations

import argparse
import copy
import gc
import os
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import taiyi_fx
from benchmarks.overhead.models import probed, thin_mlp
from benchmarks.overhead.work import WORKS

_READINGS = ["InputSndNorm", "OutputGradSndNorm"]


def sites(*, quick: bool) -> Iterator[str]:
    """Cost by number of sites: a chain of tiny modules, each read at its input and its gradient."""
    yield f"{'sites':>8}{'instrument':>12}{'first step':>12}{'a reading':>12}{'its track':>12}"
    for count in (10, 100, 1000) if quick else (10, 100, 1000, 10_000):
        plain = nn.Sequential(*(nn.Tanh() for _ in range(count)))
        began = time.process_time()
        probed_model = taiyi_fx.instrument(plain, {nn.Tanh: _READINGS})
        taken = time.process_time() - began
        first = _nanoseconds(lambda m=probed_model: _train(m)) / 1e9
        passes, tracks = _per_step(plain, probed_model, max(5, 2000 // count))
        each = [1e-3 * x / (2 * count) for x in (passes, tracks)]
        yield f"{count:8}{taken:10.2f} s{first:10.2f} s{each[0]:9.2f} us{each[1]:9.2f} us"


def _per_step(plain: nn.Module, model: nn.Module, rounds: int) -> tuple[float, float]:
    """Nanoseconds that forward and backward take more, and that `track` takes, in a due step."""
    passes: list[float] = []
    tracks: list[float] = []
    for step in range(rounds):
        of_plain = _nanoseconds(lambda: _train(plain))
        passes.append(_nanoseconds(lambda: _train(model)) - of_plain)
        tracks.append(_nanoseconds(lambda s=step: model.monitor.track(s)))
    return statistics.median(passes), statistics.median(tracks)


def _train(model: nn.Module) -> None:
    model(torch.ones(8, requires_grad=True)).sum().backward()


def steps(*, quick: bool) -> Iterator[str]:
    """Cost of a step by how many there were before, and memory of a recorded number."""
    count = 400 if quick else 4000
    model, x = _watched_mlp(), torch.randn(64, 32)
    for step in range(20):
        _tracked_step(model, x, step)
    spent = [
        _nanoseconds(lambda s=step: _tracked_step(model, x, s)) for step in range(20, 20 + count)
    ]
    parts = [spent[i * count // 4 : (i + 1) * count // 4] for i in range(4)]
    times = ", ".join(f"{statistics.median(part) / 1e6:.2f}" for part in parts)
    yield f"a step in each quarter of {count} steps, all norms due: {times} ms"
    yield f"memory of a recorded number: {_bytes_of_a_number(x):.0f} bytes"


def _watched_mlp() -> nn.Module:
    plain = thin_mlp()
    return taiyi_fx.instrument(plain, WORKS["q1"].cfg(plain))


def _tracked_step(model: nn.Module, x: torch.Tensor, step: int) -> None:
    model.zero_grad()
    model(x).sum().backward()
    model.monitor.track(step)


def _bytes_of_a_number(x: torch.Tensor, count: int = 200) -> float:
    """Of all that Python holds for the records of some steps, from the first on."""
    model = _watched_mlp()
    _tracked_step(model, x, 0)
    gc.collect()
    tracemalloc.start()
    for step in range(1, count + 1):
        _tracked_step(model, x, step)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / (len(model.monitor.records) * count / (count + 1))


def parameters(*, quick: bool) -> Iterator[str]:
    """Cost of the norms of a weight and its gradient by its size, beside torch's in float32."""
    yield f"{'parameters':>12}{'track':>12}{'torch alone':>14}   nanoseconds each"
    for count in (10**5, 10**6) if quick else (10**5, 10**6, 10**7, 10**8):
        layer = nn.Linear(1000, count // 1000, bias=False)
        model = taiyi_fx.instrument(nn.Sequential(layer), {"0": ["WeightNorm", "WeightGradNorm"]})
        layer.weight.grad = torch.randn_like(layer.weight)
        tracks, alone = [], []
        for step in range(5 if count > 10**7 else 25):
            tracks.append(_nanoseconds(lambda s=step, m=model: m.monitor.track(s)))
            alone.append(_nanoseconds(lambda w=layer.weight: _norms(w)))
        each = [statistics.median(spent) / count for spent in (tracks, alone)]
        yield f"{count:12}{each[0]:12.3f}{each[1]:14.3f}"


@torch.no_grad()
def _norms(weight: nn.Parameter) -> None:
    torch.linalg.vector_norm(weight)
    torch.linalg.vector_norm(weight.grad)


def ranks(*, quick: bool) -> Iterator[str]:
    """Wall time that a due step takes more under DistributedDataParallel, by number of ranks.

    As many processes as ranks, one thread each: more ranks than cores wait for each other.
    """
    for count in (1, 2) if quick else (1, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "found")
            mp.spawn(_rank, (count, folder, 20 if quick else 200), nprocs=count)
            with open(file, encoding="utf-8") as found:
                yield f"{count} ranks of {os.cpu_count()} cores: {found.read()}"


def _rank(rank: int, count: int, folder: str, rounds: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    store = os.path.join(folder, "store")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    plain, x = thin_mlp(), torch.randn(64, 32)
    part = taiyi_fx.instrument(copy.deepcopy(plain), WORKS["q1"].cfg(plain))
    ours, theirs = DistributedDataParallel(part), DistributedDataParallel(plain)
    pairs = [_pair(ours, theirs, part.monitor, x, step) for step in range(rounds)][rounds // 10 :]
    if rank == 0:
        with open(os.path.join(folder, "found"), "w", encoding="utf-8") as file:
            middle, base = (statistics.median(spent) / 1e6 for spent in zip(*pairs, strict=True))
            readings = 4 * len(probed(plain))
            file.write(f"{base:.2f} ms, with {readings} readings {middle - base:+.2f} ms")
    dist.barrier()
    dist.destroy_process_group()


def _pair(
    ours: nn.Module, theirs: nn.Module, monitor: taiyi_fx.Monitor, x: torch.Tensor, step: int
) -> tuple[int, int]:
    """Wall nanoseconds of a step with the monitor and of one without."""
    dist.barrier()
    began = time.perf_counter_ns()
    ours(x).sum().backward()
    monitor.track(step)
    ended = time.perf_counter_ns()
    dist.barrier()
    again = time.perf_counter_ns()
    theirs(x).sum().backward()
    return ended - began, time.perf_counter_ns() - again


def _nanoseconds(run: Callable[[], object]) -> int:
    """Of the process on the CPU, over all its threads."""
    began = time.process_time_ns()
    run()
    return time.process_time_ns() - began


_ALL = {measure.__name__: measure for measure in (sites, steps, parameters, ranks)}


def main() -> None:
    """Measures what the command line names, or everything."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=summary)
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
