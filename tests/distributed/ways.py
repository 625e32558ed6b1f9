"""Ways of training a model on several ranks, each with the plain and the watched one.

Each training has steps with equal shares of the rows, with unequal ones, and of several micro-batches.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import taiyi_fx
from taiyi_fx import MonitorWarning
from tests.distributed.models import Recorded, recorded

BACKEND = "aot_eager"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(8), nn.Linear(8, 16)
        self.act, self.down = nn.GELU(), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


CFG = {
    nn.Linear: [
        "InputSndNorm",
        "InputStd",
        "OutputGradSndNorm",
        "WeightNorm",
        "WeightGradNorm",
        ["InputCovMaxEig", "every(2)"],
    ],
    nn.GELU: ["OutputRMS", "OutputGradRMS"],
}


def stack() -> Stack:
    # In float64: what is compared is what joining does, not the rounding of other batch sizes.
    torch.manual_seed(0)
    return Stack().double()


UNEQUAL = {1: [8], 2: [5, 3], 4: [3, 1, 2, 2]}
"""The rows of eight that each of so many ranks sees."""

Shares = Sequence[Tensor]
"""The rows of a micro-batch by rank."""


def steps(ranks: int) -> list[list[Shares]]:
    """The micro-batches of each step, in shares of ranks that the rows are split over."""
    g = torch.Generator().manual_seed(1)
    x = torch.randn(7, 8, 5, 8, generator=g, dtype=torch.float64)
    equal, unequal = [8 // ranks] * ranks, UNEQUAL[ranks]
    sizes = [[equal], [unequal], [equal, equal], [equal], [unequal, equal]]
    rows = iter(x)
    return [[next(rows).split(of_one) for of_one in of_step] for of_step in sizes]


Prepare = Callable[[nn.Module, DeviceMesh], Callable[[Tensor], Any]]


@dataclass(frozen=True)
class Way:
    """How a model is spread over ranks, and compiled or not.

    Attributes:
        prepare: Makes of a model, and the mesh of data by tensor parallel ranks, what is called.
        is_tensor_parallel: Whether pairs of ranks see the same rows.
    """

    prepare: Prepare
    is_tensor_parallel: bool = False


class Went(NamedTuple):
    """What a rank has to tell of a way.

    Attributes:
        plain: Why the plain model cannot go it, if so.
        records: Of the watched one.
        parameters: Whether both have the same bits in the end.
        told: What was not read, and why.
    """

    plain: str
    records: Recorded
    parameters: bool
    told: Mapping[Any, str]


def went(way: Way, rank: int, ranks: int) -> Went:
    """Goes a way with the plain and with the watched model."""
    tensor = 2 if way.is_tensor_parallel else 1
    mesh = init_device_mesh("cpu", (ranks // tensor, tensor), mesh_dim_names=("data", "tensor"))
    plain = stack()
    try:
        train(plain, way.prepare(plain, mesh), rows(mesh))
    except Exception as error:  # noqa: BLE001 - what torch itself cannot do is told by the test
        return Went(f"{type(error).__name__}: {error}", {}, False, {})
    group = {"data_group": mesh["data"].get_group()} if way.is_tensor_parallel else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        model = taiyi_fx.instrument(stack(), CFG, **group)
        train(model, way.prepare(model, mesh), rows(mesh), model.monitor.track)
        found = recorded(model.monitor)
    pairs = zip(map(local, plain.parameters()), map(local, model.parameters()), strict=True)
    same = all(torch.equal(a, b) for a, b in pairs)
    return Went("", found, same, dict(model.monitor.missing))


def alone(ranks: int) -> Recorded:
    """What one process reads that sees the rows of so many ranks, in eager mode."""
    model = taiyi_fx.instrument(stack(), CFG)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, batches in enumerate(steps(ranks)):
        optimizer.zero_grad()
        for shares in batches:
            sizes = [len(share) for share in shares]
            losses = map(loss_of, model(torch.cat([*shares])).split(sizes))
            (sum(losses) / ranks).backward()
        model.monitor.track(step)
        optimizer.step()
    return recorded(model.monitor)


def loss_of(y: Tensor) -> Tensor:
    return (y**2 * torch.arange(3.0)).mean()


def rows(mesh: DeviceMesh) -> list[list[Tensor]]:
    """Of each step, this rank's share of each micro-batch."""
    data = mesh["data"]
    of_all = steps(data.size())
    return [[shares[data.get_local_rank()] for shares in batches] for batches in of_all]


def train(
    model: nn.Module,
    run: Callable[[Tensor], Any],
    data: list[list[Tensor]],
    track: Callable[[int], None] = lambda step: None,
) -> None:
    torch.compiler.reset()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, batches in enumerate(data):
        optimizer.zero_grad()
        for i, x in enumerate(batches, 1):
            with synchronized(run, i == len(batches)):
                y = run(x)
                loss_of(y.full_tensor() if isinstance(y, DTensor) else y).backward()
        track(step)
        optimizer.step()


@contextmanager
def synchronized(run: Any, is_last: bool) -> Iterator[None]:
    """Leaves gradients alone before the last micro-batch, where the wrapper can."""
    if isinstance(run, DistributedDataParallel) and not is_last:
        with run.no_sync():
            yield
        return
    if isinstance(run, FSDPModule):
        run.set_requires_gradient_sync(is_last)
    yield


def local(x: Tensor) -> Tensor:
    return x.to_local() if isinstance(x, DTensor) else x


def compiled(model: nn.Module) -> Callable[[Tensor], Any]:
    return torch.compile(model, backend=BACKEND)


def compile_blocks(model: nn.Module) -> None:
    for block in blocks_of(model):
        block.compile(backend=BACKEND)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, Block)]


def fsdp_whole(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    fully_shard(model, mesh=mesh["data"])
    return compiled(model)


def fsdp_by_block(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    shard_blocks(model, mesh)
    return compiled(model)


def fsdp_blocks_compiled(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    """As torchtitan does it."""
    compile_blocks(model)
    shard_blocks(model, mesh)
    return model


def fsdp_eager(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    shard_blocks(model, mesh)
    return model


def ddp_eager(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    return DistributedDataParallel(model)


def tensor_parallel_eager(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    parallelize_blocks(model, mesh)
    average_gradients(model, mesh)
    return model


def fsdp_and_tensor_parallel_eager(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    parallelize_blocks(model, mesh)
    shard_blocks(model, mesh)
    return model


def shard_blocks(model: nn.Module, mesh: DeviceMesh) -> None:
    for block in blocks_of(model):
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])


def tensor_parallel(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    parallelize_blocks(model, mesh)
    average_gradients(model, mesh)
    return compiled(model)


def tensor_parallel_blocks_compiled(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    parallelize_blocks(model, mesh)
    average_gradients(model, mesh)
    compile_blocks(model)
    return model


def parallelize_blocks(model: nn.Module, mesh: DeviceMesh) -> None:
    plan = {"up": ColwiseParallel(use_local_output=False), "down": RowwiseParallel()}
    for block in blocks_of(model):
        parallelize_module(block, mesh["tensor"], plan)


def average_gradients(model: nn.Module, mesh: DeviceMesh) -> None:
    """Of copies of the tensor parallel ranks, as a wrapper would."""
    data = mesh["data"]

    def average(p: Tensor) -> None:
        assert p.grad is not None
        gradient = local(p.grad)
        dist.all_reduce(gradient, group=data.get_group())
        gradient /= data.size()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(average)


def fsdp_and_tensor_parallel(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    parallelize_blocks(model, mesh)
    shard_blocks(model, mesh)
    return compiled(model)


def fsdp_and_tensor_parallel_blocks_compiled(
    model: nn.Module, mesh: DeviceMesh
) -> Callable[[Tensor], Any]:
    parallelize_blocks(model, mesh)
    compile_blocks(model)
    shard_blocks(model, mesh)
    return model


def ddp_whole(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    return compiled(with_lasting_buckets(model))


def ddp_of_compiled(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    return with_lasting_buckets(torch.compile(model, backend=BACKEND))


def ddp_blocks_compiled(model: nn.Module, mesh: DeviceMesh) -> Callable[[Tensor], Any]:
    compile_blocks(model)
    return with_lasting_buckets(model)


def with_lasting_buckets(model: Any) -> DistributedDataParallel:
    """One that does not order its buckets by when gradients come, which more than two ranks see.

    Of a compiled graph's gradients that is as good as random: one input more changes it.
    """
    return DistributedDataParallel(model, find_unused_parameters=True)


WAYS = {
    **{
        prepare.__name__: Way(prepare)
        for prepare in (
            ddp_eager,
            fsdp_eager,
            fsdp_whole,
            fsdp_by_block,
            fsdp_blocks_compiled,
            ddp_whole,
            ddp_of_compiled,
            ddp_blocks_compiled,
        )
    },
    **{
        prepare.__name__: Way(prepare, is_tensor_parallel=True)
        for prepare in (
            tensor_parallel_eager,
            fsdp_and_tensor_parallel_eager,
            tensor_parallel,
            tensor_parallel_blocks_compiled,
            fsdp_and_tensor_parallel,
            fsdp_and_tensor_parallel_blocks_compiled,
        )
    },
}
