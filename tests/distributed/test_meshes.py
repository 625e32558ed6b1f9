"""Four ranks: stages of a pipeline, sharded parameters, tensor parallelism."""

import functools
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import taiyi_fx
from taiyi_fx import MonitorWarning
from tests.distributed.models import (
    Collectives,
    batches,
    differences,
    recorded,
    share,
    small,
    train,
)
from tests.distributed.processes import run
from tests.distributed.test_data_parallel import every_quantity

pytestmark = pytest.mark.slow  # four ranks

# Both as seen of models that nobody monitors.
shards_on_host = pytest.mark.skipif(
    torch.__version__ < (2, 7), reason="torch 2.6 cannot run fully_shard on a CPU"
)
runs_sequence_parallel = pytest.mark.skipif(
    torch.__version__ < (2, 7), reason="torch 2.6 fails in this model's backward"
)


def alone(cfg, data, model=small):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        made = taiyi_fx.instrument(model(), cfg)
        return train(made, made.monitor, data)


def of_stages(rank, ranks):
    """Two stages of a pipeline, each on two ranks that share its data."""
    _ = [dist.new_group(of) for of in ([0], [0, 1])]  # ranks know different numbers of groups
    stage = rank // 2
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
    records = train(model, model.monitor, share(batches(2), rank, ranks))
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


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(self.down(self.act(self.up(x))))


def perceptron():
    torch.manual_seed(0)
    return Perceptron().double()


PLAN = {"up": ColwiseParallel(use_local_output=False), "down": RowwiseParallel()}
SEQUENCE = {
    "up": ColwiseParallel(input_layouts=Replicate(), use_local_output=False),
    "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    "norm": SequenceParallel(use_local_output=False),
}


def samples(steps=2):
    g = torch.Generator().manual_seed(1)
    return torch.randn(steps, 4, 3, 4, generator=g, dtype=torch.float64)


def descend(model, monitor, data, between=lambda: None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, x in enumerate(data):
        optimizer.zero_grad()
        y = model(x)
        y = y.full_tensor() if isinstance(y, DTensor) else y
        (y**2 * torch.arange(4.0)).mean().backward()
        between()
        monitor.track(step)
        optimizer.step()
    return recorded(monitor)


@taiyi_fx.quantity(spectrum=taiyi_fx.output.spectrum, xx=taiyi_fx.output.square_sum)
def of_the_whole_and_of_parts(spectrum, xx):
    """A spectrum is that of the whole tensor, and squares are summed in parts."""
    return spectrum.trace * xx


def every_quantity_of_perceptron():
    """All but those of routers: no part of it is one, and parts of a result are no choices."""
    routers = ("RouterLoad", "RouterEntropy", "DeadExperts")
    asked = every_quantity(perceptron)
    own = of_the_whole_and_of_parts
    return {name: [*(q for q in of if q not in routers), own] for name, of in asked.items()}


@functools.cache
def descended_alone():
    """The records of one process, which every way of tensor parallelism is compared with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        model = taiyi_fx.instrument(perceptron(), every_quantity_of_perceptron())
        return descend(model, model.monitor, samples())


def of_two_dimensions(rank, ranks):
    """FSDP over two groups of two tensor parallel ranks."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    data = mesh["data"]
    cfg = every_quantity_of_perceptron()
    model = taiyi_fx.instrument(perceptron(), cfg, data_group=data.get_group())
    parallelize_module(model, mesh["tensor"], PLAN)
    fully_shard(model, mesh=data)
    rows = [x.chunk(2)[data.get_local_rank()] for x in samples()]
    return descend(model, model.monitor, rows)


def of_copies_of_tensor_parallel_ranks(rank, ranks):
    """Two groups of two tensor parallel ranks whose gradients are averaged by hand."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    data = mesh["data"]
    cfg = every_quantity_of_perceptron()
    plain = parallelize_module(perceptron(), mesh["tensor"], PLAN)
    model = taiyi_fx.instrument(plain, cfg, data_group=data.get_group())

    def average():
        for p in model.parameters():
            gradient = p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad
            dist.all_reduce(gradient, group=data.get_group())
            gradient /= 2

    rows = [x.chunk(2)[data.get_local_rank()] for x in samples()]
    return descend(model, model.monitor, rows, average)


def of_tensor_parallel_ranks(rank, ranks):
    own = [dist.new_group([other]) for other in range(ranks)][rank]
    model = taiyi_fx.instrument(perceptron(), every_quantity_of_perceptron(), data_group=own)
    parallelize_module(model, init_device_mesh("cpu", (ranks,)), SEQUENCE)
    return descend(model, model.monitor, samples())


def of_tensor_parallel_ranks_alone(rank, ranks):
    model = taiyi_fx.instrument(perceptron(), every_quantity_of_perceptron(), process_group=None)
    parallelize_module(model, init_device_mesh("cpu", (ranks,)), SEQUENCE)
    return descend(model, model.monitor, samples())


def of_ranks_without_a_data_group(rank, ranks):
    """What is warned of without a data group, of ways that need one and of ways that need none."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    told: dict[str, list[str]] = {}

    def track(name, spread, **options):
        model = taiyi_fx.instrument(perceptron(), {nn.Linear: ["WeightNorm"]}, **options)
        spread(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.monitor.track(0)
        texts = [str(warning.message) for warning in caught]
        told[name] = [text for text in texts if "data_group" in text]

    def of_two_dimensions(model):
        parallelize_module(model, mesh["tensor"], PLAN)
        fully_shard(model, mesh=mesh["data"])

    track("tensor", lambda model: parallelize_module(model, mesh["tensor"], PLAN))
    track("both", of_two_dimensions)
    track("fsdp", lambda model: fully_shard(model, mesh=init_device_mesh("cpu", (4,))))
    track("hsdp", lambda model: fully_shard(model, mesh=mesh))
    track("given", of_two_dimensions, data_group=mesh["data"].get_group())
    track("alone", of_two_dimensions, process_group=None)
    return told


def of_wrong_groups(rank, ranks):
    told: list[str] = []
    pair = [dist.new_group(of) for of in ([0, 1], [2, 3])][rank // 2]
    half = dist.new_group([0, 1])
    across = [dist.new_group(of) for of in ([0, 2], [1, 3])][rank % 2]
    for options in (
        {"data_group": pair if rank else None},
        {"process_group": pair, "data_group": across},
        {"process_group": half},
        {"process_group": None, "data_group": pair},
        {"process_group": pair, "cfg": rank},
    ):
        cfg = {"": ["WeightNorm"] if options.pop("cfg", 0) % 2 == 0 else ["InputMean"]}
        try:
            taiyi_fx.instrument(nn.Linear(2, 2), cfg, **options).monitor.track(0)
            told.append("")
        except (TypeError, ValueError) as error:
            told.append(f"{type(error).__name__}: {error}")
    return told


def of_parts_elsewhere(rank, ranks):
    """Parameters over all ranks, of which only pairs are joined."""
    pair = [dist.new_group(of) for of in ([0, 1], [2, 3])][rank // 2]
    model = taiyi_fx.instrument(nn.Linear(4, 4), {"": ["WeightNorm"]}, process_group=pair)
    fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        model.monitor.track(0)
    return dict(model.monitor.missing)


def perceptrons():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def eight_rows():
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(1)).double()


def of_all_gradients(rank, ranks):
    model = taiyi_fx.instrument(perceptrons(), {"": ["GradNorm", "LearningRate"]})
    fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
    groups = [{"params": [*model[i].parameters()], "lr": 0.1 + i} for i in (0, 2)]
    model.monitor.watch_optimizer(torch.optim.SGD(groups))
    model(eight_rows().chunk(ranks)[rank]).square().mean().backward()
    model.monitor.track(0)
    return {name: of[0] for name, of in model.monitor.get_output().get("", {}).items()}


OF_OPTIMIZERS = ["FirstMoment", "SecondMoment", "EffectiveStep", "UpdateLost"]


def in_bfloat16_by(kind):
    """A model in bfloat16, whose steps are partly lost, and its optimizer."""
    model = perceptrons().bfloat16()
    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    return model, lambda: kind(model.parameters(), lr=3e-4, **options)


def states_while_training(model, optimizer, rows):
    """The records of a few steps, in which each rank has the same rows, so that bits are equal."""
    for step in range(3):
        model(rows.bfloat16()).square().mean().backward()
        model.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return model.monitor.get_output()


def of_bits(rank, ranks):
    model = taiyi_fx.instrument(small(), {"fc": ["ParameterFingerprint"]})
    fully_shard(model.fc, mesh=init_device_mesh("cpu", (ranks,)))
    fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
    return train(model, model.monitor, share(batches(1), rank, ranks))


def of_states(rank, ranks):
    found = {}
    for kind in (torch.optim.AdamW, torch.optim.SGD):
        plain, optimizer_of = in_bfloat16_by(kind)
        cfg = [n for n in OF_OPTIMIZERS if n != "SecondMoment" or kind is torch.optim.AdamW]
        model = taiyi_fx.instrument(plain, {"Linear": cfg})
        fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
        optimizer = optimizer_of()
        model.monitor.watch_optimizer(optimizer)
        found[kind.__name__] = states_while_training(model, optimizer, eight_rows())
    return found


CHECKS = {
    check.__name__: check
    for check in (
        of_stages,
        of_a_lone_stage,
        of_fsdp,
        of_hsdp,
        of_fsdp_alone,
        of_fsdp_collectives,
        of_two_dimensions,
        of_copies_of_tensor_parallel_ranks,
        of_tensor_parallel_ranks,
        of_tensor_parallel_ranks_alone,
        of_ranks_without_a_data_group,
        of_wrong_groups,
        of_parts_elsewhere,
        of_all_gradients,
        of_bits,
        of_states,
    )
}


@pytest.fixture(scope="module")
def answers():
    return run(CHECKS, 4)


@pytest.mark.exhaustive
def test_each_stage_of_a_pipeline_is_joined_with_its_own(answers):
    (of_first, told), (none, told_first), (of_second, _), (none_too, told_second) = answers(
        "of_stages"
    )
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


@pytest.fixture(scope="module")
def every_quantity_alone():
    return alone(every_quantity(), batches(2))


@shards_on_host
@pytest.mark.parametrize("name", ["of_fsdp", "of_hsdp"])
def test_sharded_parameters_have_the_values_of_the_whole(answers, every_quantity_alone, name):
    first, *others = answers(name)
    assert not differences(first, every_quantity_alone)
    assert others == [{}, {}, {}]


@shards_on_host
def test_sharded_parameters_have_the_fingerprint_of_the_whole(answers):
    first, *others = answers("of_bits")
    expected = alone({"fc": ["ParameterFingerprint"]}, batches(1))
    assert first == {key: value for key, value in expected.items() if key[2] == 0}
    assert others == [{}, {}, {}]


@shards_on_host
def test_a_rank_for_itself_sees_whole_parameters(answers, every_quantity_alone):
    of_parameters = {k: v for k, v in every_quantity_alone.items() if "Parameter" in k[1]}
    assert of_parameters
    for records in answers("of_fsdp_alone"):
        assert not differences({k: records[k] for k in of_parameters}, of_parameters)


@shards_on_host
def test_sharded_norms_need_one_collective_too(answers):
    for _, *others in answers("of_fsdp_collectives"):
        assert others == [1, 1]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("of_two_dimensions", marks=shards_on_host),
        "of_copies_of_tensor_parallel_ranks",
        pytest.param("of_tensor_parallel_ranks", marks=runs_sequence_parallel),
    ],
)
def test_tensor_parallel_ranks_have_the_values_of_one(answers, name):
    first, *others = answers(name)
    assert not differences(first, descended_alone())
    assert others == [{}, {}, {}]


@runs_sequence_parallel
def test_tensor_parallel_ranks_for_themselves_see_whole_tensors(answers):
    expected = descended_alone()
    for records in answers("of_tensor_parallel_ranks_alone"):
        assert not differences(records, expected)


def test_tensor_parallel_ranks_are_asked_for_their_data_group(answers):
    first, *others = answers("of_ranks_without_a_data_group")
    for name in ("tensor", "both"):
        (text,) = first.pop(name)
        assert "is held in parts by ranks that see one batch" in text
        assert 'data_group=mesh["data"].get_group()' in text
    assert [{name for name in of if of[name]} for of in (first, *others)] == [set()] * 4


def test_groups_that_do_not_fit_are_refused_on_all_ranks(answers):
    for rank, told in enumerate(answers("of_wrong_groups")):
        partly, strange, foreign, needless, different = told
        assert "data_group was given on the ranks [1, 2, 3] of [0, 1, 2, 3]" in partly
        assert "which are not joined with it" in strange
        assert ("this rank is not in that group" in foreign) == (rank > 1)
        assert "process_group is None" in needless
        assert f"those of [{rank // 2 * 2}] and [{rank // 2 * 2 + 1}]" in different


def test_parts_that_are_not_joined_are_told(answers):
    first, *_ = answers("of_parts_elsewhere")
    assert "hold parts of it and are not joined" in first["", "WeightNorm"]


@shards_on_host
def test_the_norm_of_all_gradients_is_that_of_all_shards(answers):
    model = perceptrons()
    model(eight_rows()).square().mean().backward()

    def norm(parameters):
        return torch.cat([p.grad.reshape(-1) for p in parameters]).norm().item()

    first, *others = answers("of_all_gradients")
    assert others == [{}] * 3
    assert first == pytest.approx(
        {
            "GradNorm": norm(model.parameters()),
            "GradNorm.group0": norm(model[0].parameters()),
            "GradNorm.group1": norm(model[2].parameters()),
            "LearningRate.group0": 0.1,
            "LearningRate.group1": 2.1,
        }
    )


@shards_on_host
def test_the_state_of_sharded_parameters_is_that_of_one_process(answers):
    first, *others = answers("of_states")
    assert others == [{"AdamW": {}, "SGD": {}}] * 3
    for kind in (torch.optim.AdamW, torch.optim.SGD):
        plain, optimizer_of = in_bfloat16_by(kind)
        optimizer = optimizer_of()
        cfg = [n for n in OF_OPTIMIZERS if n != "SecondMoment" or kind is torch.optim.AdamW]
        model = taiyi_fx.instrument(plain, {"Linear": cfg}, optimizer=optimizer)
        alone = states_while_training(model, optimizer, eight_rows())
        assert alone.keys() == first[kind.__name__].keys() == {"0", "2"}
        for module, of in alone.items():
            assert of.keys() == first[kind.__name__][module].keys()
            for name, values in of.items():
                assert first[kind.__name__][module][name] == pytest.approx(values, rel=1e-6), name
        assert 0 < alone["0"]["UpdateLost.weight"][2] < 1
