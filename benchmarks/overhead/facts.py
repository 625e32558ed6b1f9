"""What a tool holds, needs and waits for, beside time; each tool alone, beyond what plain does.

- *Held*: bytes of all tensors that Python knows of after a step with its gradients cleared, without
  the model's own and the batch. Numbers that were recorded are no tensors: see `scaling`.
- *Peak*: the most that the allocator gave out during a due step, with what is held; see `memory`.
  The model, its batch and what the optimizer keeps are not counted: they would make ratios smaller.
- *Copies*: how often a due step would copy from an accelerator to the host, those included that it
  need not wait for; see `host_copies`.
- *Graphs* and *breaks*: what Dynamo compiled until every combination of due quantities had run.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from unittest import mock

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from benchmarks.overhead.host_copies import HostCopies
from benchmarks.overhead.memory import peak_of
from benchmarks.overhead.models import Case
from benchmarks.overhead.tools import TOOLS
from benchmarks.overhead.training import Training, started, warm_up
from benchmarks.overhead.work import Work


@dataclass(frozen=True)
class Facts:
    """What was counted of one tool; bytes are absolute."""

    held: int
    peak: int
    copies: int | None
    graphs: int
    breaks: int


def facts_of(case: Case, work: Work, tool: str) -> Facts:
    """Everything that is counted of one tool."""
    torch._dynamo.reset()
    counters.clear()
    before = _storages()
    training = started(case, work, tool)
    warm_up(training, work)
    graphs = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    training.clear_gradients()
    peak = peak_of(training.run_step, training.batch[0].device)
    training.clear_gradients()
    training.watched.wait()  # what a thread of the tool's own still works on is in the peak
    time.sleep(0.1)  # it lets go of its last work a moment after that is done
    held = _held(training, before)
    copies = None if TOOLS[tool].is_compiled else _copies(case, work, tool)
    return Facts(held, held + peak, copies, *graphs)


def _storages() -> dict[int, torch.UntypedStorage]:
    """The memory of all tensors that Python knows of, by address.

    Whoever holds the result holds the memory, so that no address comes again.
    """
    gc.collect()
    # Exactly these: what compilers trace with looks like a tensor and has no memory.
    tensors = (o for o in gc.get_objects() if type(o) in (Tensor, nn.Parameter))
    of_tensors = (t.untyped_storage() for t in tensors if t.layout == torch.strided)
    return {storage.data_ptr(): storage for storage in of_tensors}


def _held(training: Training, before: Mapping[int, torch.UntypedStorage]) -> int:
    model = training.watched.model
    own = chain(model.parameters(), model.buffers(), training.batch)
    known = {*before, *(t.untyped_storage().data_ptr() for t in own)}
    return sum(s.nbytes() for address, s in _storages().items() if address not in known)


def _copies(case: Case, work: Work, tool: str) -> int:
    # As if the CPU were elsewhere, taiyi_fx takes the way that it takes on an accelerator: on the
    # CPU it looks at sums to see whether they are right.
    training = started(case, work, tool)
    warm_up(training, work)
    with mock.patch.object(torch.Tensor, "is_cpu", False), HostCopies() as copies:
        training.run_step()
    return copies.count
