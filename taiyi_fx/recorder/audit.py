"""Audits: a step run twice has the same bits, and ranks that hold one model hold the same bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.optim import Optimizer

from taiyi_fx.passes.module_tree import named_parameters
from taiyi_fx.passes.probes.dtensor import is_spread
from taiyi_fx.recorder.replay.kept_step import KeptStep
from taiyi_fx.recorder.replay.ran import Ran
from taiyi_fx.recorder.replay.replayer import compare_gradients
from taiyi_fx.recorder.replay.rerun import Ways, run_again
from taiyi_fx.reductions import fingerprint
from taiyi_fx.step.ranks.gate import Gate, named

Rows = Sequence[Mapping[str, str]]
"""For each rank the fingerprints of its parameters, by name."""


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    Attributes:
        step: The step.
        is_equal: True if all that was compared had the same bits.
        text: The difference, and what it may come from; empty if there is none.
        ranks: The ranks that part from the others.
    """

    step: int
    is_equal: bool
    text: str = ""
    ranks: tuple[int, ...] = ()


def audit_step(
    kept: KeptStep, model: nn.Module, ways: Ways, optimizers: Sequence[Optimizer]
) -> Audit:
    """Runs a step again, and compares its bits with those of before; once more, if they differ.

    Two runs that agree with each other, and not with the step as it happened, mean that something
    went wrong then.

    Args:
        kept: The step, which was the last one; its optimizers have not made a step yet.
        model: The model, whose gradients are those of the step.
        ways: The ways to call it.
        optimizers: The optimizers that train it.
    """
    first = _ran(kept, model, ways, optimizers)
    if not first.differences:
        return Audit(kept.step, is_equal=True)
    second = _ran(kept, model, ways, optimizers)
    what = first.differences[0]
    if _prints(first) != _prints(second):
        cause = (
            "two more runs differ from each other, too: an operation of the step is not "
            "deterministic (torch.use_deterministic_algorithms(True) names it)"
        )
    else:
        cause = (
            "two more runs agree with each other: a bit was flipped as the step ran, in memory or "
            "in a computation, or the model depends on something beside its parameters, buffers, "
            "arguments and random numbers"
        )
    reasons = "".join(f" ({note})" for note in first.reasons)
    return Audit(kept.step, is_equal=False, text=f"{what}{reasons}; {cause}")


def _ran(kept: KeptStep, model: nn.Module, ways: Ways, optimizers: Sequence[Optimizer]) -> Ran:
    (ran,) = run_again(model, ways, optimizers, [kept], is_watched=False)
    compare_gradients(ran, model)
    return ran


def _prints(ran: Ran) -> Any:
    gradients = {n: None if g is None else fingerprint(g) for n, g in ran.gradients.items()}
    return ran.outputs, gradients


class RankAudit:
    """Compares the parameters of ranks that hold the same ones.

    Args:
        model: The model of this rank.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._gate: Gate | None = None

    @property
    def is_possible(self) -> bool:
        """True if there are several ranks."""
        return dist.is_initialized() and dist.get_world_size() > 1

    def audit(self, step: int) -> Audit:
        """Compares the ranks at a step, at which all of them call it.

        Raises:
            NotJoined: A rank did not come.
        """
        if self._gate is None:
            store = dist.distributed_c10d._get_default_store()
            members = range(dist.get_world_size())
            self._gate = Gate(store, "taiyi_fx/audit", members, dist.get_rank())
        found = self._gate.decision(dict(_prints_of(self._model)), parted)
        ranks, name = tuple(found["ranks"]), found["name"]
        if not name:
            return Audit(step, is_equal=True)
        return Audit(step, is_equal=False, text=_told(ranks, name, found["count"]), ranks=ranks)


def parted(rows: Rows) -> dict[str, Any]:
    """The ranks that part from most others, the first tensor that they part in, and their number.

    They are compared only if most ranks have the same bits in half of the tensors: otherwise each
    has a part of the model, as in tensor parallelism. Of two ranks none is named.
    """
    names = [name for name in rows[0] if all(name in row for row in rows)]
    counts = {name: Counter(row[name] for row in rows) for name in names}
    agreed = [name for name in names if 2 * max(counts[name].values()) > len(rows)]
    if 2 * len(agreed) < len(names):
        return {"ranks": [], "name": "", "count": 0}
    other = [name for name in names if len(counts[name]) > 1]
    ranks: set[int] = set()
    for name in other:
        (most, count), *_ = counts[name].most_common()
        if 2 * count > len(rows):
            ranks |= {i for i, row in enumerate(rows) if row[name] != most}
    return {"ranks": sorted(ranks), "name": other[0] if other else "", "count": len(other)}


def _told(ranks: tuple[int, ...], name: str, count: int) -> str:
    who = f"{named(ranks)} parts from the others" if ranks else "the ranks part from each other"
    more = f" and {count - 1} more have" if count > 1 else " has"
    return (
        f"{who}: {name}{more} other bits there, where all ranks should hold the same: a bit was "
        "flipped in the memory of one, or their code does not begin, or update, all of them alike; "
        "go back to a checkpoint of before"
    )


def _prints_of(model: nn.Module) -> Iterator[tuple[str, str]]:
    """Fingerprints of what ranks hold together; not of buffers, which are each rank's own."""
    for name, x in named_parameters(model):
        if not is_spread(x) and _is_dense(x):
            yield name, f"{fingerprint(x):016x}"


def _is_dense(x: Tensor) -> bool:
    return x.layout is torch.strided and not x.is_nested and not x.is_meta
