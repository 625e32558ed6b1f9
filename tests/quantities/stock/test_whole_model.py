"""What is of the model as a whole, against float64."""

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from tests.quantities.references.whole_model import clipped_by, grad_norm, loss_spike

CFG = {
    "": ["GradNorm", "LearningRate", ["ClippedBy", "every(1)", {"max_norm": 0.5}], "LossSpike"],
}
GROUPS = {"": ["GradNorm", "LearningRate"]}


def net():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2), nn.Linear(3, 3))


def grouped(model):
    groups = [{"params": model[0].parameters(), "lr": 0.3}, {"params": model[2].parameters()}]
    return torch.optim.SGD(groups, lr=0.01)


def backward(model, factor=1.0):
    (factor * model[:3](torch.randn(6, 4)).square().sum()).backward()


def values(model):
    return {k: v[max(v)] for k, v in model.monitor.get_output().get("", {}).items()}


@settings(deadline=None, max_examples=40)
@given(
    scales=st.lists(st.sampled_from([0.0, 1e-30, 1e-3, 1.0, 1e20]), min_size=4, max_size=4),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    max_norm=st.sampled_from([1e-3, 0.5, 1e3]),
    left_out=st.integers(0, 5),
)
def test_norms_are_those_of_all_gradients_of_any_size(scales, dtype, max_norm, left_out):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2)).to(dtype)
    cfg = {"": ["GradNorm", ["ClippedBy", "every(1)", {"max_norm": max_norm}]]}
    watched = taiyi_fx.instrument(model, cfg)
    for i, (p, scale) in enumerate(zip(model.parameters(), scales, strict=True)):
        p.grad = None if i == left_out else scale * torch.randn_like(p)
    watched.monitor.track(0)
    found, expected = values(watched), grad_norm(model.parameters())
    assert found["GradNorm"] == pytest.approx(expected, rel=1e-5)
    clipped = clipped_by(model.parameters(), max_norm)
    assert found["ClippedBy"] == pytest.approx(clipped, abs=1e-5)


def test_the_share_is_what_torch_clips():
    model = net()
    watched = taiyi_fx.instrument(model, {"": [["ClippedBy", "every(1)", {"max_norm": 0.5}]]})
    backward(watched)
    watched.monitor.track(0)
    before = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    assert before > 0.5
    left = grad_norm(model.parameters()) / before.item()
    assert values(watched)["ClippedBy"] == pytest.approx(1 - left, abs=1e-5)


def test_each_group_has_its_norm_and_its_rate():
    model = net()
    watched = taiyi_fx.instrument(model, GROUPS, optimizer=grouped(model))
    backward(watched)
    watched.monitor.track(0)
    found = values(watched)
    assert found["GradNorm"] == pytest.approx(grad_norm(model.parameters()), rel=1e-5)
    assert found["GradNorm.group0"] == pytest.approx(grad_norm(model[0].parameters()), rel=1e-5)
    assert found["GradNorm.group1"] == pytest.approx(grad_norm(model[2].parameters()), rel=1e-5)
    assert (found["LearningRate.group0"], found["LearningRate.group1"]) == (0.3, 0.01)


def test_one_group_has_no_number():
    model = net()
    watched = taiyi_fx.instrument(model, GROUPS, optimizer=torch.optim.AdamW(model.parameters()))
    backward(watched)
    watched.monitor.track(0)
    assert values(watched).keys() == {"GradNorm", "LearningRate"}
    assert values(watched)["LearningRate"] == 1e-3


def test_the_rate_is_that_of_the_step_to_come():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(1.0))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    watched = taiyi_fx.instrument(model, {"": ["LearningRate"]})
    watched.monitor.watch_optimizer(optimizer)
    for step in range(3):
        backward(watched)
        watched.monitor.track(step)
        optimizer.step()
        scheduler.step()
    assert watched.monitor.get_output()[""]["LearningRate"] == {0: 1.0, 1: 0.5, 2: 0.25}


def test_groups_of_several_optimizers_are_counted_over_all():
    model = net()
    both = [torch.optim.SGD(model[i].parameters(), lr=i + 1.0) for i in (0, 2)]
    watched = taiyi_fx.instrument(model, {"": ["LearningRate"]}, optimizer=both)
    watched.monitor.track(0)
    assert values(watched) == {"LearningRate.group0": 1.0, "LearningRate.group1": 3.0}


@pytest.mark.parametrize("unscales", [False, True])
def test_norms_are_of_the_true_loss_under_a_scaler(unscales):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    watched = taiyi_fx.instrument(model, GROUPS, optimizer=optimizer)
    loss = watched[:3](torch.randn(6, 4)).square().sum()
    scaler.scale(loss).backward()
    if unscales:
        scaler.unscale_(optimizer)
    watched.monitor.track(0, grad_scale=scaler)
    if not unscales:
        scaler.unscale_(optimizer)
    assert values(watched)["GradNorm"] == pytest.approx(grad_norm(model.parameters()), rel=1e-5)


def test_a_sparse_gradient_and_a_tied_parameter_count_once():
    model = nn.Sequential(nn.Embedding(7, 3, sparse=True), nn.Linear(3, 7, bias=False))
    tied = nn.Sequential(model, nn.Linear(3, 7))
    tied[1].weight = model[1].weight
    watched = taiyi_fx.instrument(tied, {"": ["GradNorm"]})
    h = model[0](torch.tensor([1, 1, 5]))
    (model[1](h) + tied[1](h)).square().sum().backward()
    watched.monitor.track(0)
    dense = [p.grad.to_dense().double() for p in tied.parameters()]
    expected = torch.cat([g.reshape(-1) for g in dense]).norm().item()
    assert values(watched)["GradNorm"] == pytest.approx(expected, rel=1e-5)


def test_a_gradient_that_is_not_finite_makes_the_norm_so():
    model = net()
    watched = taiyi_fx.instrument(model, {"": ["GradNorm"]})
    backward(watched, factor=math.inf)
    watched.monitor.track(0)
    assert not math.isfinite(values(watched)["GradNorm"])


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=200))
def test_a_spike_is_in_robust_deviations_of_the_last_128_losses(losses):
    watched = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["LossSpike"]})
    for step, loss in enumerate(losses):
        watched.monitor.log("train/loss", loss)
        watched.monitor.log("accuracy", 7.0)
        watched.monitor.track(step)
    found = watched.monitor.get_output()[""].get("LossSpike", {})
    assert list(found) == list(range(32, len(losses)))
    for step, value in found.items():
        try:
            expected = loss_spike(losses[: step + 1])
        except ZeroDivisionError:  # all before are equal, or most of them
            assert value == 0 or math.isinf(value)
            continue
        assert value == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_a_spike_needs_the_loss_of_its_step():
    watched = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["LossSpike"]})
    for step in range(40):
        watched.monitor.log("loss", float(step % 7))
        watched.monitor.track(step)
    with pytest.warns(taiyi_fx.MonitorWarning, match="no number with 'loss' in its name"):
        watched.monitor.track(40)
    watched.monitor.log("loss", 1.0)
    watched.monitor.track(41)
    found = watched.monitor.get_output()[""]["LossSpike"]
    assert list(found) == [*range(32, 40), 41]


@pytest.mark.parametrize(
    ("quantity", "why"),
    [
        ("LearningRate", "no optimizer is known: give instrument"),
        ("GradNorm", "no gradient reached the model"),
        ("LossSpike", "no number with 'loss' in its name was logged"),
    ],
)
def test_what_is_not_known_is_said(quantity, why):
    watched = taiyi_fx.instrument(nn.Linear(2, 2), {"": [quantity]})
    with pytest.warns(taiyi_fx.MonitorWarning, match=why):
        watched.monitor.track(0)
    assert "" not in watched.monitor.get_output()
    assert why in watched.monitor.explain("", quantity)


def test_a_part_of_the_model_has_none_of_it():
    text = "'0' \\(Linear\\) is a part: ask for it of the whole model, under the key ''"
    with pytest.raises(taiyi_fx.ConfigError, match=text):
        taiyi_fx.instrument(net(), {"0": ["GradNorm"]})


@pytest.mark.parametrize("wrong", [3, net(), [torch.optim.SGD(net().parameters()), "adam"]])
def test_what_is_no_optimizer_is_refused_before_anything_is_instrumented(wrong):
    with pytest.raises(TypeError, match="an optimizer has param_groups"):
        taiyi_fx.instrument(net(), GROUPS, optimizer=wrong)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_know_no_optimizer_until_they_are_told(copied):
    model = net()
    watched = taiyi_fx.instrument(model, GROUPS, optimizer=grouped(model))
    twin = copied(watched)
    backward(twin)
    with pytest.warns(taiyi_fx.MonitorWarning, match="no optimizer is known"):
        twin.monitor.track(0)
    twin.monitor.watch_optimizer(torch.optim.SGD(twin.parameters(), lr=0.7))
    backward(twin)
    twin.monitor.track(1)
    assert values(twin)["LearningRate"] == 0.7


def test_runs_keep_the_series_and_their_units(tmp_path):
    model = net()
    watched = taiyi_fx.instrument(model, CFG, optimizer=grouped(model), run=tmp_path / "run")
    for step in range(40):
        backward(watched)
        watched.monitor.log("loss", 1.0 + step % 3)
        watched.monitor.track(step)
        model.zero_grad()
    watched.monitor.close()
    run = taiyi_fx.open_run(tmp_path / "run")
    kept = {name: run.series("", name) for name in ("GradNorm", "GradNorm.group1", "LossSpike")}
    for name, (steps, numbers) in kept.items():
        expected = watched.monitor.get_output()[""][name]
        assert dict(zip(steps.tolist(), numbers.tolist(), strict=True)) == pytest.approx(expected)
    assert taiyi_fx.report(run, tmp_path / "page.html").exists()
