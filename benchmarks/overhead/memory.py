"""What a step allocates: the peak, exactly, and the same each time.

On a CPU torch's profiler tells each allocation and each release of the allocator, autograd's and
those of saved tensors among them, in order. It sees the thread that asks, in which backward runs
as well, and neither what Python itself takes nor what libraries take beside torch's allocator.
On a GPU the caching allocator keeps the peak itself.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import accumulate

import torch


def peak_of(run: Callable[[], None], device: torch.device) -> int:
    """The most bytes that a call allocates at once, over those that were allocated before it."""
    gc.collect()  # so that garbage of others is not released within
    return _on_gpu(run, device) if device.type == "cuda" else _on_cpu(run)


def _on_gpu(run: Callable[[], None], device: torch.device) -> int:
    torch.cuda.synchronize(device)
    start = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    run()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - start


def _on_cpu(run: Callable[[], None]) -> int:
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu], profile_memory=True) as profile:
        run()
    events = profile.profiler.kineto_results.events()
    changes = (event.nbytes() for event in events if event.name() == "[memory]")
    return max(accumulate(changes, initial=0))
