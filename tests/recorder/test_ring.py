"""The ring of the last steps: every site, exact beside hooks, and a training that stays the same."""

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.runs.recording import RecordedSite
from tests.reductions.test_summary import reference


class Twice(nn.Module):
    """A layer that is called twice, one in a container, and a function between."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(6, 6)
        self.body = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.2), nn.Linear(6, 80))
        self.unused = nn.ModuleList([nn.Linear(2, 2)])

    def forward(self, x):
        return self.body(self.shared(torch.tanh(self.shared(x))))


def parts_of(micro_batches, step):
    generator = torch.Generator().manual_seed(step)
    return [torch.randn(90, 6, generator=generator) for _ in range(micro_batches)]


def train(called, model, steps=6, micro_batches=1, after=lambda step: None, scale=1.0):
    torch.manual_seed(7)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for step in range(steps):
        for x in parts_of(micro_batches, step):
            loss = called(x).square().mean()
            (loss * scale).backward()
            losses.append(loss.detach())
        after(step)
        optimizer.step()
        optimizer.zero_grad()
    return [*losses, *(p.detach().clone() for p in model.parameters()), torch.rand(1)]


def made():
    torch.manual_seed(0)
    return Twice()


def recorded(recorder, model=None, cfg=None, compiled=False, track=None, **options):
    model = model or made()
    cfg = {} if cfg is None else cfg
    instrumented = taiyi_fx.instrument(model, cfg, recorder=recorder, strict=True)
    called = torch.compile(instrumented, backend="aot_eager") if compiled else instrumented
    track = track or instrumented.monitor.track
    bits = train(called, model, after=track, **options)
    instrumented.monitor.close()
    return bits


def hooked(model, **options):
    """The same statistics by hooks: by step, site and micro-batch."""
    seen = {}
    step = 0

    def keep(name, place):
        return lambda x: seen.setdefault((step, name, place), []).append(x.detach().clone())

    def after(ended):
        nonlocal step
        step = ended + 1
        calls.clear()

    calls = {}

    def hook(name):
        def read(module, args, output):
            call = calls[name] = calls.get(name, -1) + 1
            site = f"{name}@{call}" if call else name
            keep(site, "output")(output)
            output.register_hook(keep(site, "output_grad"))

        return read

    for name, module in model.named_modules():
        if not isinstance(module, nn.ModuleList):
            module.register_forward_hook(hook(name))
    calling = model.forward

    def called(x):
        calls.clear()
        return model(x)

    assert calling is not None
    train(called, model, after=after, **options)
    return {key: torch.cat(parts) for key, parts in seen.items()}


@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("compiled", [False, True])
def test_each_site_is_that_which_hooks_see(compiled, micro_batches):
    torch._dynamo.reset()
    recorder = taiyi_fx.Recorder(steps=4)
    recorded(recorder, compiled=compiled, micro_batches=micro_batches)
    expected = hooked(made(), micro_batches=micro_batches)
    found = recorder.dump()
    assert found.steps == (2, 3, 4, 5)
    assert {site.module for site in found.sites} == {
        "", "shared", "shared@1", "body", "body.0", "body.1", "body.2",
    }  # fmt: skip
    for site in found.sites:
        for step, values in found.of(*site).items():
            norm, mean, most, bad = reference(expected[(step, *site)])
            assert values.norm == pytest.approx(norm, rel=1e-4), (step, site)
            assert values.mean == pytest.approx(mean, rel=1e-3, abs=1e-5 * most), (step, site)
            assert values.abs_max == pytest.approx(most, rel=1e-5), (step, site)
            assert values.non_finite == bad == 0


@pytest.mark.parametrize("compiled", [False, True])
def test_a_training_is_the_same_to_the_bit(compiled):
    torch._dynamo.reset()
    model = made()
    called = torch.compile(model, backend="aot_eager") if compiled else model
    plain = train(called, model)
    torch._dynamo.reset()
    watched = recorded(taiyi_fx.Recorder(), compiled=compiled)
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    assert len(plain) == len(watched)


@pytest.mark.parametrize("cfg", [{}, {"body": ["OutputNorm"]}, {"body.*": ["OutputGradSndNorm"]}])
def test_a_configuration_gives_the_same_records_beside_it(cfg):
    def records(recorder):
        model = made()
        one = taiyi_fx.instrument(model, cfg, recorder=recorder)
        train(one, model, after=one.monitor.track)
        return one.monitor.get_output()

    assert records(taiyi_fx.Recorder(every=2)) == records(None)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_is_one_small_tensor(compiled):
    torch._dynamo.reset()
    recorder = taiyi_fx.Recorder(steps=3)
    recorded(recorder, compiled=compiled)
    rows = recorder._training.ring._rows
    assert [row.step for row in rows] == [3, 4, 5]
    for row in rows:
        ((places, numbers),) = row.parts
        assert numbers.shape == (len(places), 4) == (len(row.sites), 4) == (14, 4)


def test_only_every_so_many_steps_are_recorded():
    recorder = taiyi_fx.Recorder(steps=2, every=2)
    recorded(recorder)
    assert recorder.dump().steps == (2, 4)


def test_a_loss_scale_is_taken_out_of_gradients():
    plain, scaled = taiyi_fx.Recorder(), taiyi_fx.Recorder()
    recorded(plain)
    model = made()
    one = taiyi_fx.instrument(model, {}, recorder=scaled)
    train(one, model, scale=64.0, after=lambda step: one.monitor.track(step, grad_scale=64.0))
    # Adam's own steps differ a little with the scale, so that of the first step is compared.
    a, b = (found.dump().of("body.0", "output_grad")[0] for found in (plain, scaled))
    assert b == pytest.approx(a, rel=1e-4, abs=1e-8)


def test_nan_and_inf_are_counted_and_left_out_of_the_rest():
    class Breaks(nn.Module):
        def forward(self, x):
            y = x * 1.0
            y[0, 0], y[1, 1], y[2, 2] = torch.nan, torch.inf, -torch.inf
            return y

    model = nn.Sequential(nn.Linear(6, 6), Breaks(), nn.Linear(6, 2))
    recorder = taiyi_fx.Recorder()
    recorded(recorder, model, steps=2)
    found = recorder.dump()
    values = found.of("1")[0]
    assert values.non_finite == 3
    assert np.isfinite(values).all()
    assert found.first_non_finite == (0, RecordedSite("1", "output"))


def test_what_was_not_read_is_left_out():
    class Seldom(nn.Module):
        def __init__(self):
            super().__init__()
            self.always, self.seldom, self.count = nn.Linear(6, 6), nn.Linear(6, 6), 0

        def forward(self, x):
            self.count += 1
            x = self.always(x)
            return self.seldom(x) if self.count == 2 else x

    recorder = taiyi_fx.Recorder()
    recorded(recorder, Seldom(), steps=3)
    assert list(recorder.dump().of("seldom")) == [1]


def test_a_step_whose_forward_failed_is_recorded_without_it():
    recorder = taiyi_fx.Recorder()
    model = made()
    one = taiyi_fx.instrument(model, {}, recorder=recorder)
    one(torch.randn(4, 6)).sum().backward()
    with pytest.raises(RuntimeError):
        one(torch.randn(4, 5))
    one.monitor.track(0)
    assert recorder.dump().of("shared")[0].norm > 0


def test_functions_that_are_targets_are_sites():
    recorder = taiyi_fx.Recorder()
    recorded(recorder, cfg={torch.tanh: ["OutputNorm"]}, steps=2)
    modules = {site.module for site in recorder.dump().sites}
    assert any(name.endswith("tanh()") for name in modules), modules


def test_at_other_steps_the_model_runs_its_own_forward():
    model = made()
    one = taiyi_fx.instrument(model, {}, recorder=taiyi_fx.Recorder(every=5), start_step=1)
    assert not one._instrumentation.compiled.installation.run.due


def test_a_step_that_cannot_be_taken_is_told_once_and_records_go_on(monkeypatch):
    def fails(*_):
        raise MemoryError("no more")

    monkeypatch.setattr("taiyi_fx.recorder.ring._parts", fails)
    model = made()
    one = taiyi_fx.instrument(model, {"shared": ["OutputNorm"]}, recorder=taiyi_fx.Recorder())
    with pytest.warns(taiyi_fx.MonitorWarning, match="not among the last steps.*no more") as told:
        train(one, model, after=one.monitor.track, steps=3)
    assert len(told) == 1
    assert list(one.monitor.get_output()["shared"]["OutputNorm"]) == [0, 1, 2]
