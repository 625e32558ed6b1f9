"""A step is collected as values under way, in order, with why there is none by series."""

import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.step.background import BackgroundWorker
from taiyi_fx.step.collect import TrackedStep
from taiyi_fx.step.statistics import Scale
from taiyi_fx.step.transfer import Outcome, Transfer
from tests.step.given import Given, column


def collected(given, step=0, *, logged=(), unread=None, scale=None):
    """A step, collected as `track` does it."""
    due = given.monitor._tracker.steps.due_at(step)
    with torch.no_grad():
        return given.monitor._tracker._collector.collect(
            due, step, Scale() if scale is None else scale, logged, unread=unread
        )


def numbers(outcome):
    return {
        series: value
        for _, block in outcome.blocks
        for series, value in zip(block.series, block.values, strict=True)
    }


def test_values_are_those_of_the_forward_with_what_was_logged():
    given, x = Given({nn.Linear: ["InputSndNorm"]}), torch.randn(5, 3)
    given.model(x)
    found = numbers(collected(given, logged=[column(loss=0.5)]).prompt.outcome())
    hidden = x.double() @ given.model[0].weight.double().T + given.model[0].bias.double()
    expected = {
        ("0", "InputSndNorm"): x.double().norm().item(),
        ("1", "InputSndNorm"): hidden.norm().item(),
        ("", "loss"): 0.5,
    }
    assert found == pytest.approx(expected, rel=1e-6)


def test_the_order_is_that_of_the_configuration():
    given = Given({"1": ["OutputRMS", "InputSndNorm"], "0": ["InputSndNorm"]})
    given.model(torch.randn(5, 3))
    order = collected(given).order
    assert order == {("0", "InputSndNorm"): 0, ("1", "OutputRMS"): 1, ("1", "InputSndNorm"): 2}


def test_a_module_that_was_not_called_is_a_failure_with_its_reason():
    step = collected(Given({"0": ["InputSndNorm"]}))
    (text,) = step.failures.values()
    assert text.startswith("the module was not called in a training forward")


def test_what_is_missing_as_forwards_were_not_read_says_so():
    step = collected(Given({"0": ["InputSndNorm"]}), unread="left out")
    assert step.failures["0", "InputSndNorm"] == "left out"


def test_costly_quantities_are_computed_beside():
    given, x = Given({"0": ["InputSndNorm", "InputCovMaxEig"]}), torch.randn(9, 3)
    given.model(x)
    step = collected(given)
    assert numbers(step.prompt.outcome()).keys() == {("0", "InputSndNorm")}
    expected = torch.linalg.eigvalsh(torch.cov(x.double().T))[-1].item()
    found = numbers(step.costly.outcome())
    assert found == pytest.approx({("0", "InputCovMaxEig"): expected}, rel=1e-5)
    assert step.is_there


def test_costly_work_that_cannot_be_handed_over_fails_by_name(monkeypatch):
    def refuse(step, works, batches):
        raise MemoryError("no room")

    given = Given({"0": ["InputSndNorm", "InputCovMaxEig"]})
    given.model(torch.randn(9, 3))
    monkeypatch.setattr(given.monitor._tracker._collector._background, "submit", refuse)
    step = collected(given)
    assert step.costly is None
    assert step.failures == {("0", "InputCovMaxEig"): "MemoryError: no room"}
    strict = Given({"0": ["InputCovMaxEig"]}, strict=True)
    strict.model(torch.randn(9, 3))
    monkeypatch.setattr(strict.monitor._tracker._collector._background, "submit", refuse)
    with pytest.raises(MemoryError, match="no room"):
        collected(strict)


def test_a_reading_that_failed_is_named_or_raises_if_strict():
    for strict in (False, True):
        given = Given({"0": ["InputSndNorm"]}, strict=strict)
        (slot,) = given.table.at("train", "0", 0).values()
        slot.fail(RuntimeError("no luck"))
        if strict:
            with pytest.raises(RuntimeError, match="no luck"):
                collected(given)
        else:
            assert collected(given).failures == {("0", "InputSndNorm"): "RuntimeError: no luck"}


def test_calls_seen_later_are_collected_too():
    class Repeats(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.n = nn.Linear(3, 3), 1

        def forward(self, x):
            for _ in range(self.n):
                x = self.fc(x)
            return x

    given = Given({"fc": ["InputSndNorm"]}, Repeats())
    for n in (1, 2, 3):
        given.model.n = n
        given.model(torch.randn(2, 3))
        names = [module for module, _ in numbers(collected(given).prompt.outcome())]
        assert names == ["fc", "fc@1", "fc@2"][:n]
        given.table.clear()


def test_what_spans_steps_is_forgotten_when_cleared():
    @taiyi_fx.quantity(
        "moved", now=taiyi_fx.output.norm, before=taiyi_fx.previous(taiyi_fx.output.norm)
    )
    def moved(now, before):
        return torch.tensor(float(before is None))

    given = Given({"0": [moved]})
    found = []
    for step in range(3):
        given.model(torch.randn(2, 3))
        found += numbers(collected(given, step).prompt.outcome()).values()
        given.table.clear()
        if step == 1:
            given.monitor._tracker._collector.clear()
    assert found == [1, 0, 1]


def test_a_step_is_there_when_both_its_parts_are():
    class Job:
        is_done = False

    job = Job()
    step = TrackedStep(0, Transfer(Outcome()), job)
    assert not step.is_there
    job.is_done = True
    assert step.is_there
    assert TrackedStep(0, Transfer(Outcome())).is_there


def test_a_scaler_lets_gradients_overflow():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = collected(Given({"0": ["InputSndNorm"]}), scale=Scale(may_overflow=True))
    assert step.may_overflow


def test_what_is_computed_layer_by_layer_is_sent_to_the_host_first(monkeypatch):
    """From statistics on a device; what is batched, or large, is computed there."""

    def trained():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
        cfg = {
            nn.Linear: ["UpdateRatio", "WeightNorm", "NonFinite", "ForwardOutput"],
            nn.BatchNorm1d: [["MeanTID", "every(2)"]],
            nn.ReLU: ["DeadNeuronRatio"],
        }
        watched = taiyi_fx.instrument(model, cfg)
        optimizer = torch.optim.SGD(watched.parameters(), lr=0.1)
        for step in range(4):
            rows = 5 if step < 2 else 5000  # an output that was small goes where it went before
            watched(torch.randn(rows, 4)).square().mean().backward()
            watched.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()
        return watched.monitor

    here = trained().records
    sent = {}
    submit = BackgroundWorker.submit

    def noted(worker, step, works, batches):
        sent.setdefault(step, set()).update(work.asked.quantity.name for work in works)
        return submit(worker, step, works, batches)

    monkeypatch.setattr("taiyi_fx.step.host._is_on_host", lambda x: False)
    monkeypatch.setattr(BackgroundWorker, "submit", noted)
    found = trained().records
    for a, b in zip(found, here, strict=True):
        assert (a.step, a.module, a.quantity) == (b.step, b.module, b.quantity)
        # Within rounding: copied side by side, they are aligned otherwise.
        torch.testing.assert_close(a.value, b.value, rtol=1e-6, atol=0.0)
    alone = {"UpdateRatio", "MeanTID", "DeadNeuronRatio", "ForwardOutput"}
    assert sent == dict.fromkeys(range(4), alone)


def test_counts_of_nan_are_told_at_once_though_each_is_computed_alone(monkeypatch):
    """Where there are many of them they are batched; those of a user's own need not be."""

    @taiyi_fx.quantity("bad", health="counts_non_finite", found=taiyi_fx.output.non_finites)
    def bad(found):
        return found.nan + found.inf

    monkeypatch.setattr("taiyi_fx.step.host._is_on_host", lambda x: False)
    given = Given({"0": [bad]})
    given.model(torch.full((2, 3), float("nan")))
    with torch.no_grad():
        step = collected(given)
    assert numbers(step.prompt.outcome()) == {("0", "bad"): 8}
