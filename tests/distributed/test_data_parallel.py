"""Two ranks under DistributedDataParallel have the values of one that saw all rows."""

import contextlib
import copy
import dataclasses
import functools
import pickle
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import taiyi_fx
from taiyi_fx import MonitorWarning, output, quantity, reductions
from taiyi_fx.config.check import check
from taiyi_fx.quantities.declare import find_quantity, quantity_names
from tests.distributed.models import (
    Collectives,
    Small,
    batches,
    differences,
    recorded,
    share,
    small,
    train,
)
from tests.distributed.processes import run
from tests.test_input_gradients import Residual, batch, made

SOME = {
    "fc": ["InputMean", "InputStd", "OutputGradSndNorm", "WeightNorm", "InputCovMaxEig"],
    "act": ["OutputRMS", "Histogram", "OutputGradKurtosis"],
    "norm": ["InputCovCondition", "GradientNoiseScale", "NonFinite"],
}


# Not what other tests have declared in this process, and the others do not know of.
OWN = [
    name
    for name in quantity_names()
    if find_quantity(name).compute.__module__.startswith("taiyi_fx.")
    and find_quantity(name).functions is None  # whose calls these models do not make
    and name != "Loss"
    and not name.endswith("Fingerprint")  # sums over ranks round otherwise
    and name not in ("ForwardTime", "BackwardTime", "SavedBytes")  # each rank's own, added up
    and name != "OutputGradSampleSpread"  # of each call's own means, and each rank's
]


@functools.cache
def every_quantity(model=small):
    """All that each part of a model can have."""
    cfg = {}
    for name, _ in model().named_children():
        for quantity_name in OWN:
            with contextlib.suppress(taiyi_fx.ConfigError):
                check(model(), {name: [quantity_name]})
                cfg.setdefault(name, []).append(quantity_name)
    return cfg


def alone(cfg, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        model = taiyi_fx.instrument(small(), cfg)
        return train(model, model.monitor, data)


def under_ddp(rank, ranks, cfg, data, compiled=False, **options):
    model = taiyi_fx.instrument(small(), cfg, **options)
    wrapped = DistributedDataParallel(model)
    runs = torch.compile(wrapped, backend="aot_eager") if compiled else wrapped
    return train(runs, model.monitor, share(data, rank, ranks)), model.monitor


def of_every_quantity(rank, ranks):
    return under_ddp(rank, ranks, every_quantity(), batches())[0]


COMPILED = {"fc": ["InputStd", "OutputGradSndNorm", "InputCovMaxEig"], "act": ["OutputRMS"]}


def compiled(rank, ranks):
    return under_ddp(rank, ranks, COMPILED, batches(2), compiled=True)[0]


def of_a_smaller_last_batch(rank, ranks):
    model = taiyi_fx.instrument(small(), {**SOME, "conv": ["ForwardInput", "FeatureMap"]})
    data = share(batches(2), rank, ranks) + share(batches(1, 3), rank, ranks)
    return train(DistributedDataParallel(model), model.monitor, data)


def of_growing_batches(rank, ranks):
    model = taiyi_fx.instrument(small(), {**SOME, "conv": ["ForwardInput", "FeatureMap"]})
    data = [part for n in (4, 8, 6) for part in share(batches(1, n), rank, ranks)]
    return train(DistributedDataParallel(model), model.monitor, data)


def of_micro_batches(rank, ranks):
    """Three on the first rank, one on the second, and at the second step none there."""
    model = taiyi_fx.instrument(small(), SOME)
    for step in range(2):
        (x, _), *_ = batches(1)
        if rank == 0:
            parts = (slice(0, 2), slice(2, 3), slice(3, 4))
        else:
            parts = (slice(4, 8),) if step == 0 else ()
        for part in parts:
            model(x[part]).sum().backward()
        model.monitor.track(step, grad_scale=0.5)
    return recorded(model.monitor)


def of_micro_batches_alone():
    model = taiyi_fx.instrument(small(), SOME)
    (x, _), *_ = batches(1)
    for step, rows in enumerate((x, x[:4])):
        model(rows).sum().backward()
        model.monitor.track(step)
        model.zero_grad()
    return recorded(model.monitor)


def with_accumulation(rank, ranks):
    model = taiyi_fx.instrument(small(), SOME)
    wrapped = DistributedDataParallel(model)
    data = share(batches(2), rank, ranks)
    with wrapped.no_sync():
        F.cross_entropy(wrapped(data[0][0]), data[0][1]).backward()
    F.cross_entropy(wrapped(data[1][0]), data[1][1]).backward()
    model.monitor.track(0)
    return recorded(model.monitor)


def with_accumulation_alone():
    model = taiyi_fx.instrument(small(), SOME)
    for x, y in batches(2):
        F.cross_entropy(model(x), y).backward()
    model.monitor.track(0)
    return recorded(model.monitor)


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x, part):
        return (self.a if part == "a" else self.b)(x)


def of_a_skipped_module(rank, ranks):
    """Each rank skips what the other calls, and calls one module twice."""
    torch.manual_seed(0)
    model = taiyi_fx.instrument(
        Branching(), {nn.Linear: ["InputMean", "OutputGradCorrelation", "WeightGradNorm"]}
    )
    for step in range(2):
        model.zero_grad()
        x = torch.full((2, 3), 1.0 + step)
        model(x, "ab"[rank]).sum().backward()
        model.monitor.track(step)
    return recorded(model.monitor), dict(model.monitor.missing)


def of_collectives(rank, ranks):
    model = taiyi_fx.instrument(
        small(), {"fc": [["InputMean", "linear(2, 0)"], ["InputStd", "linear(4, 0)"], "WeightNorm"]}
    )
    seen = []
    for step, (x, y) in enumerate(share(batches(9), rank, ranks)):
        F.cross_entropy(model(x), y).backward()
        with Collectives() as collectives:
            model.monitor.track(step)
        seen.append(collectives.names)
    return seen


def of_nothing_due(rank, ranks):
    model = taiyi_fx.instrument(small(), {"fc": [["InputMean", "at_steps(1)"]]})
    seen = []
    for step, (x, y) in enumerate(share(batches(4), rank, ranks)):
        F.cross_entropy(model(x), y).backward()
        with Collectives() as collectives:
            model.monitor.track(step)
        seen.append(len(collectives.names))
    return seen


def of_bookkeeping(rank, ranks):
    model = taiyi_fx.instrument(small(), {"fc": ["InputMean"]})
    model.monitor.track(0)
    model.monitor.log("loss", float(rank))
    (x, y), *_ = share(batches(1), rank, ranks)
    F.cross_entropy(model(x), y).backward()
    model.monitor.track(1)
    epochs = model.monitor.tick_epoch()
    return recorded(model.monitor), len(epochs), model.monitor.explain("fc", "InputMean")


@dataclasses.dataclass(frozen=True)
class Failing(reductions.Norm):
    def measure(self, x):
        if dist.get_rank() == 1 and x[0, 0] > 0:
            raise ValueError("no value here")
        return super().measure(x)


def of_a_failure(rank, ranks, strict=False):
    """Step 0 is well, step 1 is not on the second rank, step 2 is well again."""
    failing = quantity("failing", norm=output.reduce(Failing))(lambda norm: norm)
    model = taiyi_fx.instrument(nn.Linear(2, 2), {"": [failing.name, "InputMean"]}, strict=strict)
    raised, told = "", []
    for step in range(3):
        with torch.no_grad():
            model.bias.fill_(1.0 if step == 1 else -1.0)
        model(torch.zeros(1, 2, requires_grad=True))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", MonitorWarning)
            try:
                model.monitor.track(step)
            except ValueError as error:
                raised = str(error)
        told += [str(warning.message) for warning in caught]
    return recorded(model.monitor), told, raised


def of_a_strict_failure(rank, ranks):
    return of_a_failure(rank, ranks, strict=True)


def of_a_window(rank, ranks):
    torch.manual_seed(0)
    model = taiyi_fx.instrument(
        nn.Sequential(nn.BatchNorm1d(3, momentum=0.0), nn.Linear(3, 1)).double(),
        {"0": [["MeanTID", "linear(3, 2)"], ["VarTID", "linear(3, 2)"]]},
    )
    rows = torch.randn(6, 2, 8, 3, dtype=torch.float64)
    for step, batches_of_step in enumerate(rows):
        for x in batches_of_step:
            model(x.chunk(ranks)[rank]).sum().backward()
        model.monitor.track(step)
    return recorded(model.monitor), rows


def of_the_first_non_finite(rank, ranks):
    cfg = {nn.Module: ["NonFinite", "OutputGradNonFinite"]}
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1)), cfg)
    x = torch.ones(3, 2)
    if rank == 1:
        x[0, 0] = torch.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MonitorWarning)
        model(x).sum().backward()
        model.monitor.track(0)
    return [str(site) for site in model.monitor.non_finite], len(caught)


def each_for_itself(rank, ranks):
    records, monitor = under_ddp(rank, ranks, SOME, batches(1), process_group=None)
    return records, monitor.explain("fc", "InputMean")


def of_a_group(rank, ranks):
    """A group of both, in the other order of options; copies stay joined."""
    group = dist.new_group([0, 1])
    model = taiyi_fx.instrument(small(), SOME, process_group=group, data_group=group)
    made = [copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))]
    data = share(batches(1), rank, ranks)
    return [train(DistributedDataParallel(m), m.monitor, data) for m in made]


SPARSE = {"fc": [["InputMean", "adaptive(50, 1)"], ["WeightNorm", "every(50)"]]}


def of_a_raised_cadence(rank, ranks):
    model = taiyi_fx.instrument(small(), SPARSE, start_step=100)
    wrapped = DistributedDataParallel(model)
    ((x, y),) = batches(steps=1)
    for step in range(100, 200):
        if step == 120 and rank == ranks - 1:
            model.monitor.raise_cadence(steps=4)
        F.cross_entropy(wrapped(x), y).backward()
        model.monitor.track(step)
    return list(model.monitor.get_output().get("fc", {}).get("InputMean", {}))


def of_a_stop(rank, ranks):
    model = taiyi_fx.instrument(small(), SPARSE, on_finding="stop", start_step=100)
    wrapped = DistributedDataParallel(model)
    ((x, y),) = batches(steps=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        for step in range(100, 200):
            F.cross_entropy(wrapped(x), y).backward()
            model.monitor.log("loss", float("nan") if step >= 120 and rank == 0 else 1.0)
            model.monitor.track(step)
            if model.monitor.should_stop:
                break
    return step


def of_gradients_of_inputs(rank, ranks):
    """The parameters' gradients of the plain model and of one whose inputs' gradients are read."""
    gradients, kept = [], 0
    for is_watched in (False, True):
        model = made(Residual)
        watched = taiyi_fx.instrument(model, {"*": ["BackwardInput"]}) if is_watched else model
        wrapped = DistributedDataParallel(watched)
        for step in range(3):
            y = wrapped(batch(2 * step + rank).requires_grad_())
            (y * torch.exp(torch.linspace(-6, 6, y.numel())).view_as(y)).sum().backward()
            if is_watched:
                watched.monitor.track(step)
        gradients.append([p.grad for p in model.parameters()])
        kept = len(watched.monitor.records) if is_watched else 0
    return gradients, kept


CHECKS = {
    check.__name__: check
    for check in (
        of_every_quantity,
        of_gradients_of_inputs,
        of_a_stop,
        of_a_raised_cadence,
        compiled,
        of_a_smaller_last_batch,
        of_growing_batches,
        of_micro_batches,
        with_accumulation,
        of_a_skipped_module,
        of_collectives,
        of_nothing_due,
        of_bookkeeping,
        of_a_failure,
        of_a_strict_failure,
        of_a_window,
        of_the_first_non_finite,
        each_for_itself,
        of_a_group,
    )
}


@pytest.fixture(scope="module")
def answers():
    return run(CHECKS, 2)


@pytest.mark.slow
def test_every_quantity_is_that_of_the_union(answers):
    first, second = answers("of_every_quantity")
    expected = alone(every_quantity(), batches())
    assert len(expected) > 1500
    assert not differences(first, expected)
    assert not second


def test_reading_gradients_of_inputs_changes_no_bit(answers):
    (first, kept), (second, _) = answers("of_gradients_of_inputs")
    assert kept > 10
    for plain, watched in (first, second):
        assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))


def test_compiled_ranks_have_the_values_of_the_union(answers):
    first, second = answers("compiled")
    assert not differences(first, alone(COMPILED, batches(2)))
    assert not second


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("of_a_smaller_last_batch", (8, 8, 3)), ("of_growing_batches", (4, 8, 6))],
)
def test_batches_of_any_size_are_joined(answers, name, sizes):
    # Of uneven shares the mean of the ranks' losses is not that of all samples.
    cfg = {**SOME, "conv": ["ForwardInput", "FeatureMap"]}
    data = [*batches(2), *batches(1, 3)]
    if name == "of_growing_batches":
        data = [part for n in sizes for part in batches(1, n)]
    expected = alone(cfg, data)
    wrong = differences(answers(name)[0], expected)
    assert all(sizes[step] == 3 and "Gr" in quantity for _, quantity, step in wrong), wrong.keys()


def test_ranks_may_have_any_number_of_micro_batches(answers):
    first, second = answers("of_micro_batches")
    assert not differences(first, of_micro_batches_alone())
    assert not second


def test_accumulated_gradients_are_those_of_the_mean_loss(answers):
    assert not differences(answers("with_accumulation")[0], with_accumulation_alone())


def test_a_module_that_a_rank_skipped_has_the_values_of_the_others(answers):
    (records, missing), (nothing, missing_there) = answers("of_a_skipped_module")
    assert not nothing
    for step in (0, 1):
        assert records["a", "InputMean", step] == records["b", "InputMean", step] == 1 + step
    assert records["b", "OutputGradCorrelation", 1] == pytest.approx(1)
    assert set(missing) == {("b", "WeightGradNorm")}  # which is this rank's own
    assert not missing_there


def test_one_collective_is_made_at_a_due_step_and_none_at_others(answers):
    for seen in answers("of_collectives"):
        # Up to step 2 each of three sets of readings is due for the first time.
        assert [len(names) for names in seen[3:]] == [0, 1, 0, 1, 0, 1]
        assert "gather" in seen[4][0]


def test_nothing_is_exchanged_where_nothing_is_due(answers):
    for first, due, *others in answers("of_nothing_due"):
        assert first == 0  # who is joined is agreed on without one
        assert due > 0
        assert others == [0, 0]


def test_the_first_rank_keeps_the_records(answers):
    (records, epochs, told), (others, of_others, told_there) = answers("of_bookkeeping")
    expected = alone({"fc": ["InputMean"]}, batches(1))
    assert records.pop(("", "loss", 1)) == 0.0
    assert not differences(records, {("fc", "InputMean", 1): expected["fc", "InputMean", 0]})
    assert epochs == 2
    assert "rank" not in told
    assert (others, of_others) == ({}, 0)
    assert told_there.endswith("(records are kept by rank 0)")


def test_what_fails_on_one_rank_has_no_value_and_is_told(answers):
    (records, told, _), (nothing, told_there, _) = answers("of_a_failure")
    assert {s for _, q, s in records if q == "failing"} == {0, 2}
    assert {s for _, q, s in records if q == "InputMean"} == {0, 1, 2}
    assert len(told) == len(told_there) == 1
    assert (
        "failing of 'the model': it could not be read on rank 1, which warned of the reason"
        in told[0]
    )
    assert "ValueError: no value here" in told_there[0]
    assert not nothing


def test_a_strict_rank_raises_and_the_others_go_on(answers):
    (records, told, raised), (_, _, raised_there) = answers("of_a_strict_failure")
    assert ("", "failing", 0) in records
    assert ("", "failing", 1) not in records
    assert len(told) == 1
    assert (raised, raised_there) == ("", "no value here")


def test_windows_are_of_the_union_of_each_micro_batch(answers):
    (records, rows), (nothing, _) = answers("of_a_window")
    assert not nothing
    means, stds = rows.mean(2), rows.std(2)
    for step in (2, 5):
        window = slice(step - 2, step + 1)
        of_means = means[window].norm(dim=-1).mean() / 3**0.5
        of_stds = (stds[window] - 1).norm(dim=-1).mean() / 3**0.5
        assert records["0", "MeanTID", step] == pytest.approx(of_means.item())
        assert records["0", "VarTID", step] == pytest.approx(of_stds.item())


def test_the_first_non_finite_site_is_found_where_another_rank_saw_it(answers):
    (sites, told), (nothing, told_there) = answers("of_the_first_non_finite")
    assert len(sites) == 2
    assert "'0'" in sites[0]
    assert (told, told_there, nothing) == (1, 0, [])


def test_without_a_group_each_rank_is_for_itself(answers):
    (first, told), (second, _) = answers("each_for_itself")
    assert "rank" not in told
    (x, y), *_ = share(batches(1), 1, 2)
    expected = alone(SOME, [(x, y)])
    assert first.keys() == second.keys() == expected.keys()
    of_values = {k: v for k, v in expected.items() if "Input" in k[1]}
    assert not differences({k: second[k] for k in of_values}, of_values)


def test_copies_are_joined_too(answers):
    firsts, seconds = answers("of_a_group")
    for first in firsts:
        assert not differences(first, alone(SOME, batches(1)))
    assert seconds == [{}, {}, {}]


def test_groups_are_checked_at_the_door():
    with pytest.raises(TypeError, match="process_group is 'auto', None or .*ProcessGroup, not 3"):
        taiyi_fx.instrument(Small(), {}, process_group=3)
    with pytest.raises(TypeError, match="data_group is None or"):
        taiyi_fx.instrument(Small(), {}, data_group="auto")


def test_a_finding_stops_all_ranks_at_the_next_exchange(answers):
    assert answers("of_a_stop") == [192, 192]


def test_a_cadence_that_one_rank_raises_is_raised_on_all_at_the_next_exchange(answers):
    assert answers("of_a_raised_cadence") == [[111, 192, 193, 194, 195, 196], []]
