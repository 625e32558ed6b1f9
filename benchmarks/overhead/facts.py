"""What a tool holds, needs and waits for, beside time; each tool alone, beyond what plain does.

- *Held*: bytes of all tensors that Python knows of after a step with its gradients cleared, without
  the model's own and the batch. Numbers that were recorded are no tensors: see `scaling`.
- *Peak*: the most that the allocator gave out during a due step, over what there was before, as
  torch's profiler tells; of the training's thread alone on a CPU.
- *Reads*: how often the host reads a tensor's values in a due step, each of which would wait for an
  accelerator; see `host_reads`.
- *Graphs* and *breaks*: what Dynamo compiled until every combination of due quantities had run.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain

import torch
from torch import Tensor
from torch._dynamo.utils import counters

from benchmarks.overhead.host_reads import HostReads
from benchmarks.overhead.models import Case
from benchmarks.overhead.tools import TOOLS
from benchmarks.overhead.training import Training, started, warm_up
from benchmarks.overhead.work import Work


@dataclass(frozen=True)
class Facts:
    """What was counted of one tool; bytes are absolute."""

    held: int
    peak: int
    reads: int | None
    graphs: int
    breaks: int


def facts_of(case: Case, work: Work, tool: str) -> Facts:
    """Everything that is counted of one tool."""
    torch._dynamo.reset()
    counters.clear()
    before = {id(storage) for storage in _storages()}
    training = started(case, work, tool)
    warm_up(training, work)
    graphs = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    training.clear_gradients()
    peak = _peak(training)
    training.clear_gradients()
    held = _held(training, before)
    reads = None if TOOLS[tool].is_compiled else _reads(case, work, tool)
    return Facts(held, peak, reads, *graphs)


def _storages() -> Iterator[torch.UntypedStorage]:
    """The memory of all tensors that Python knows of, each once."""
    gc.collect()
    # A lookup by type: some objects answer isinstance by doing something.
    tensors = [o for o in gc.get_objects() if issubclass(type(o), Tensor)]
    of_tensors = (t.untyped_storage() for t in tensors if t.layout == torch.strided)
    yield from {storage.data_ptr(): storage for storage in of_tensors}.values()


def _held(training: Training, before: set[int]) -> int:
    model = training.watched.model
    own = chain(model.parameters(), model.buffers(), training.batch)
    excluded = {t.untyped_storage().data_ptr() for t in own}
    return sum(
        storage.nbytes()
        for storage in _storages()
        if storage.data_ptr() not in excluded and id(storage) not in before
    )


def _peak(training: Training) -> int:
    """Bytes over those before the step."""
    if torch.cuda.is_available():
        start = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        training.run_step()
        return torch.cuda.max_memory_allocated() - start
    with torch.profiler.profile(profile_memory=True) as profile:
        training.run_step()
    events = profile.profiler.kineto_results.events()
    changes = (event.nbytes() for event in events if event.name() == "[memory]")
    return max(accumulate(changes, initial=0))


def _reads(case: Case, work: Work, tool: str) -> int:
    # In float64, where taiyi_fx takes the way that it takes on an accelerator: on the CPU it looks
    # at sums in float32 to see whether they are right.
    training = started(case, work, tool, torch.float64)
    warm_up(training, work)
    with HostReads() as reads:
        training.run_step()
    return reads.count
