"""Four ranks: stages of a pipeline, sharded parameters, tensor parallelism."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import taiyi_fx
from taiyi_fx import MonitorWarning
from tests.distributed.models import Collectives, batches, differences, recorded, share, small, train
from tests.distributed.processes import run
from tests.distributed.test_union import every_quantity


def alone(cfg, data, model=small):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        made = taiyi_fx.instrument(model(), cfg)
        return train(made, made.monitor, data)


def of_stages(rank, ranks):
    """Two stages of a pipeline, each on two ranks that share its data."""
    stage, place = divmod(rank, 2)
    torch.manual_seed(stage)
    part = nn.Sequential()
    part.add_module(f"stage{stage}", nn.Linear(3, 3))
    model = taiyi_fx.instrument(part, {f"stage{stage}": ["InputMean", "WeightNorm"]})
    for step in range(2):
        rows = torch.full((2, 3), float(rank))
        model(rows).sum().backward()
        model.monitor.track(step)
    return recorded(model.monitor), model.monitor.explain(f"stage{stage}", "InputMean")


def of_a_lone_stage(rank, ranks):
    """Four stages: each records its own."""
    part = nn.Sequential()
    part.add_module(f"stage{rank}", nn.Linear(3, 3))
    model = taiyi_fx.instrument(part, {nn.Linear: ["InputMean"]})
    model(torch.full((2, 3), float(rank)))
    model.monitor.track(0)
    return recorded(model.monitor)


def sharded(rank, ranks, mesh, **options):
    model = taiyi_fx.instrument(small(), every_quantity(), **options)
    for part in (model.conv, model.fc):
        fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
    records = train(model, model.monitor, share(batches(), rank, ranks))
    assert isinstance(model.fc.weight, DTensor)
    return records


def of_fsdp(rank, ranks):
    return sharded(rank, ranks, init_device_mesh("cpu", (ranks,)))


def of_hsdp(rank, ranks):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    return sharded(rank, ranks, mesh)


def of_fsdp_alone(rank, ranks):
    return sharded(rank, ranks, init_device_mesh("cpu", (ranks,)), process_group=None)


def of_fsdp_collectives(rank, ranks):
    cfg = {nn.Linear: ["WeightNorm", "WeightGradNorm", "InputMean"]}
    model = taiyi_fx.instrument(small(), cfg)
    fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
    seen = []
    for step, (x, y) in enumerate(share(batches(), rank, ranks)):
        F.cross_entropy(model(x), y).backward()
        with Collectives() as collectives:
            model.monitor.track(step)
        seen.append(len(collectives.names))
    return seen


CHECKS = {
    check.__name__: check
    for check in (of_stages, of_a_lone_stage, of_fsdp, of_hsdp, of_fsdp_alone, of_fsdp_collectives)
}


@pytest.fixture(scope="module")
def answers():
    return run(CHECKS, 4)


def test_each_stage_of_a_pipeline_is_joined_with_its_own(answers):
    (of_first, told), (none, told_first), (of_second, _), (none_too, told_second) = answers("of_stages")
    assert none == none_too == {}
    for step in (0, 1):
        assert of_first["stage0", "InputMean", step] == 0.5
        assert of_second["stage1", "InputMean", step] == 2.5
    assert {module for module, _, _ in of_second} == {"stage1"}
    assert "kept by" not in told
    assert "kept by rank 0" in told_first
    assert "kept by rank 2" in told_second


def test_a_stage_on_one_rank_records_its_own(answers):
    for rank, records in enumerate(answers("of_a_lone_stage")):
        assert records == {(f"stage{rank}", "InputMean", 0): rank}


@pytest.mark.parametrize("name", ["of_fsdp", "of_hsdp"])
def test_sharded_parameters_have_the_values_of_the_whole(answers, name):
    first, *others = answers(name)
    assert not differences(first, alone(every_quantity(), batches()))
    assert others == [{}, {}, {}]


def test_a_rank_for_itself_sees_whole_parameters(answers):
    expected = alone(every_quantity(), batches())
    for records in answers("of_fsdp_alone"):
        of_parameters = {k: v for k, v in expected.items() if "Parameter" in k[1]}
        assert of_parameters
        assert not differences({k: records[k] for k in of_parameters}, of_parameters)


def test_sharded_norms_need_one_collective_too(answers):
    for _, *others in answers("of_fsdp_collectives"):
        assert others == [1, 1]
