"""Quantities of many modules computed at once are what they are one by one."""

import math

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.quantities.declare import find_quantity, quantity_names
from taiyi_fx.step import evaluate, plan

BATCHED = [name for name in quantity_names() if find_quantity(name).batched]


class Net(nn.Module):
    """Layers of several sizes, one of them called twice, one frozen, one never called."""

    def __init__(self):
        super().__init__()
        self.first, self.twice = nn.Linear(4, 6), nn.Linear(6, 6)
        self.last, self.unused = nn.Linear(6, 1, dtype=torch.float64), nn.Linear(2, 2)
        self.first.weight.requires_grad_(False)

    def forward(self, x):
        x = self.twice(torch.relu(self.twice(self.first(x))))
        return self.last(x.double()).sum()


def instrumented(names):
    cfg = {nn.Linear: [n for n in names if n != "Loss"], "": [n for n in names if n == "Loss"]}
    return taiyi_fx.instrument(Net(), {k: v for k, v in cfg.items() if v}, record_eval=True)


def run(model, called, *, steps=4, rows=(5, 3), scale=4.0):
    torch.manual_seed(0)
    for step in range(steps):
        for n in rows:
            (called(torch.randn(n, 4)) * scale).backward()
        model.eval()
        called(torch.randn(2, 4))
        model.train()
        model.monitor.track(step, grad_scale=scale)
        model.zero_grad()
    return found(model.monitor)


def alone(items, kind, together, *, fewest=2):
    return [], list(items)


def found(monitor):
    return {(r.mode, r.step, r.module, r.quantity): r.value for r in monitor.records}


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")  # of what is frozen or unused
@pytest.mark.parametrize(
    ("compiled", "rows"),
    [
        (None, (5,)),
        (None, (5, 3)),
        pytest.param("aot_eager", (5,), marks=pytest.mark.exhaustive),
        pytest.param(
            "aot_eager", (5, 3), marks=pytest.mark.exhaustive
        ),  # compiles for any size too
    ],
)
def test_numbers_of_vectors_are_those_computed_in_batches_and_one_by_one(
    monkeypatch, compiled, rows
):
    model = instrumented(BATCHED)
    called = model if compiled is None else torch.compile(model, backend=compiled)
    values, missing = run(model, called, rows=rows), dict(model.monitor.missing)
    assert len(values) > 1000
    costly = {s.label.split("(")[0] for s in model.monitor.subscriptions if s.is_costly}
    for module in (plan, evaluate):
        monkeypatch.setattr(module, "in_batches", alone)
        model.monitor._tracker._collector._planner = plan.Planner(model.monitor._tracker._table)
        model.monitor.clean_mem()
        model.monitor.missing.clear()
        model.monitor.start_at(0)
        expected = run(model, called, rows=rows)
        assert values.keys() == expected.keys()
        for key, value in expected.items():
            assert type(values[key]) is type(value)
            rel = _rounding(value) if key[3] in costly else 1e-12
            assert values[key] == pytest.approx(value, rel=rel, nan_ok=True), key
        assert missing == model.monitor.missing


def _rounding(value):
    """Products of many at once round otherwise: by 1e-4, or the largest eigenvalue's last bit.

    A condition number is that eigenvalue over a small one, which such a bit moves by as much.
    """
    size = abs(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0
    return max(1e-4, torch.finfo(torch.float32).eps * size)


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_numbers_together_are_recorded_by_quantity_in_the_model_s_order():
    model = instrumented(["OutputRMS", "InputSndNorm"])
    run(model, model, steps=1, rows=(5, 3))
    train = [(r.module, r.quantity) for r in model.monitor.records if r.mode == "train"]
    names = ["first", "twice", "twice@1", "last"]
    assert train == [(n, q) for q in ("OutputRMS", "InputSndNorm") for n in names]


def test_what_fails_together_is_told_of_the_one_that_fails():
    calls = []

    @taiyi_fx.quantity("picky", batched=True, norm=taiyi_fx.output.norm)
    def picky(norm):
        calls.append(norm.shape)
        if (norm > 100).any():
            raise ValueError("too large")
        return norm

    model = taiyi_fx.instrument(nn.Sequential(nn.Identity(), nn.Linear(2, 2)), {"0": ["picky"], "1": ["picky"]})  # fmt: skip
    with torch.no_grad():
        model[1].weight.fill_(100)
    model(torch.ones(1, 2, requires_grad=True)).sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="picky of '1': ValueError: too large"):
        model.monitor.track(0)
    assert found(model.monitor) == {("train", 0, "0", "picky"): pytest.approx(math.sqrt(2))}
    assert calls == [(2,), (), ()]


def test_a_quantity_that_is_not_batched_after_all_is_right_all_the_same():
    @taiyi_fx.quantity("pooled", batched=True, norm=taiyi_fx.output.norm)
    def pooled(norm):
        return norm.sum()

    model = taiyi_fx.instrument(nn.Sequential(nn.Identity(), nn.Identity()), {nn.Identity: ["pooled"]})  # fmt: skip
    model(torch.ones(1, 4, requires_grad=True)).sum().backward()
    model.monitor.track(0)
    assert [r.value for r in model.monitor.records] == [2, 2]


def test_complex_numbers_computed_together_are_tensors_as_those_computed_alone(tmp_path):
    @taiyi_fx.quantity("turned", batched=True, norm=taiyi_fx.output.norm)
    def turned(norm):
        return torch.complex(norm, -norm)

    model = nn.Sequential(nn.Identity(), nn.Identity())
    model = taiyi_fx.instrument(model, {nn.Identity: ["turned"]}, run=tmp_path)
    model(torch.ones(1, 4, requires_grad=True)).sum().backward()
    model.monitor.track(0)
    model.monitor.close()
    assert [r.value for r in model.monitor.records] == [torch.tensor(2 - 2j)] * 2
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.tensors("1", "turned")[0] == 2 - 2j


def test_only_what_is_of_one_call_can_be_batched():
    with pytest.raises(
        TypeError, match="'moves': batched=True is for quantities of one step and one call"
    ):

        @taiyi_fx.quantity(
            "moves", batched=True, now=taiyi_fx.weight.norm, before=taiyi_fx.previous(taiyi_fx.weight.norm)
        )  # fmt: skip
        def moves(now, before):
            return now


@pytest.mark.parametrize("others", [0, 1])
def test_numbers_that_cannot_reach_the_host_are_told_and_the_others_recorded(others):
    # As where weights are kept elsewhere and are on no device between forwards.
    layers = [nn.Linear(2, 2, device="meta") for _ in range(2)] + [nn.Linear(2, 2)] * others
    model = taiyi_fx.instrument(nn.Sequential(*layers), {nn.Linear: ["WeightNorm"]})
    model.monitor.log("rate", 0.5)
    with pytest.warns(taiyi_fx.MonitorWarning, match="WeightNorm of '1': NotImplementedError"):
        model.monitor.track(0)
    assert [r.quantity for r in model.monitor.records] == ["WeightNorm"] * others + ["rate"]
    assert set(model.monitor.missing) == {("0", "WeightNorm"), ("1", "WeightNorm")}
