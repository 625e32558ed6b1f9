"""Readings that wait for the end of their graph are those that do not."""

import gc
import warnings
import weakref
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx.passes.probes import at_end
from taiyi_fx.passes.probes.at_end import ReadAtEnd, Sizes
from taiyi_fx.passes.rewrite import lower_probes
from taiyi_fx.snapshot.bitwise import difference
from taiyi_fx.testing import models
from taiyi_fx.testing.check_faithful import trained
from tests.examples import tried
from tests.passes.probes.test_held import CFG, deep, recorded, seen

EVERY = {nn.Module: ["InputSndNorm", "InputMean", "OutputNorm", "OutputGradSndNorm"]}


@pytest.fixture
def at_ends(monkeypatch):
    """For each graph that ended with readings that waited, whether they were held by one call."""
    found, holds_all = [], ReadAtEnd._holds_all

    def noted(self, values):
        found.append(holds_all(self, values))
        return found[-1]

    monkeypatch.setattr(ReadAtEnd, "_holds_all", noted)
    return found


def train(probed, x, steps):
    for step in steps:
        probed(x).square().sum().backward()
        probed.monitor.track(step)


@contextmanager
def waiting(*, always):
    """All readings that may wait do so from the first step on; or none ever does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lower_probes, "LEAST", 1)
        patch.setattr(Sizes, "begin", lambda self, args, kwargs: always)
        yield


@tried(25, of=100)
def test_whether_readings_wait_changes_no_bit_of_the_model_or_of_them(examples):
    @settings(max_examples=examples, deadline=None)
    @given(models(), st.integers(2, 4))
    def check(recipe, steps):
        batches = [recipe.input(3, seed=i).make() for i in range(steps)]
        results = []
        for always in (True, False):
            with waiting(always=always), warnings.catch_warnings():
                warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
                probed = taiyi_fx.instrument(recipe.make(), EVERY)
                left = [value for _, value in trained(probed, batches)]
            results.append((left, probed.monitor.records))
        (left, records), (others, same) = results
        assert not any(difference(a, b) for a, b in zip(left, others, strict=True))
        names = [[(r.step, r.module, r.quantity) for r in of] for of in (records, same)]
        assert names[0] == names[1]
        values = [r.value for r in same]
        assert [r.value for r in records] == pytest.approx(values, rel=1e-6, nan_ok=True)

    check()


def test_they_wait_from_the_third_step_on(at_ends):
    model, x = deep(), torch.randn(5, 8)
    expected = seen(model, x)
    probed = taiyi_fx.instrument(model, CFG)
    train(probed, x, range(6))
    assert at_ends == [True] * 4
    for step in range(6):
        assert recorded(probed.monitor, step) == pytest.approx(expected, rel=2e-6)


def test_a_small_tensor_of_another_kind_is_read_as_ever(at_ends):
    model, x = deep(), torch.randn(5, 8)
    probed = taiyi_fx.instrument(model, CFG)
    train(probed, x, range(3))
    with torch.autocast("cpu", torch.bfloat16):
        train(probed, x, [3])
    assert at_ends == [True, False]
    rounded = recorded(probed.monitor, 3)
    assert rounded == pytest.approx(recorded(probed.monitor, 0), rel=0.05)
    assert rounded != recorded(probed.monitor, 0)
    train(probed, x, [4, 5])
    assert at_ends == [True, False, True]  # at its place once, where it is seen to be small again
    assert recorded(probed.monitor, 5) == recorded(probed.monitor, 2)


class Repeats(nn.Module):
    """Repeats its input as often as a buffer says, which its shape does not tell."""

    def __init__(self):
        super().__init__()
        self.register_buffer("times", torch.tensor(1))

    def forward(self, x):
        return x.repeat_interleave(self.times, 0)


def test_one_that_is_large_of_a_sudden_is_read_and_waits_no_more(at_ends):
    model, x = nn.Sequential(*deep(4), Repeats(), *deep(4)), torch.randn(5, 8)
    probed = taiyi_fx.instrument(model, CFG)
    train(probed, x, range(4))
    assert at_ends == [True, True]
    expected = recorded(probed.monitor, 0)
    model[8].times.fill_(2000)
    train(probed, x, [4])
    assert at_ends == [True, True, False]
    of_large = recorded(probed.monitor, 4)
    assert of_large["0", "InputSndNorm"] == pytest.approx(expected["0", "InputSndNorm"])
    assert of_large["9", "InputSndNorm"] == pytest.approx(
        2000**0.5 * expected["9", "InputSndNorm"], rel=1e-5
    )
    model[8].times.fill_(1)
    train(probed, x, [5])
    assert len(at_ends) == 3
    assert recorded(probed.monitor, 5) == pytest.approx(expected)


def test_large_tensors_do_not_wait(at_ends):
    alive = []

    class Looks(nn.Module):
        def forward(self, x):
            gc.collect()
            alive.append([ref() is not None for ref in made])
            made.append(weakref.ref(x))
            return x + 0

    made: list[weakref.ref] = []
    parts = [part for _ in range(6) for part in (nn.Linear(32, 32), Looks())]
    probed = taiyi_fx.instrument(nn.Sequential(*parts), {"Linear": ["OutputNorm"]})
    probed.requires_grad_(False)
    for step in range(4):
        made.clear()
        alive.clear()
        probed(torch.randn(500, 32, requires_grad=True))
        probed.monitor.track(step)
        assert alive[-1] == [False] * 5
    assert not at_ends


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_what_is_changed_in_place_all_the_same_is_missing_and_not_wrong(at_ends, monkeypatch):
    model, x = deep(), torch.randn(5, 8)
    expected = seen(model, x)
    probed = taiyi_fx.instrument(model, CFG)
    train(probed, x, range(4))
    tanh = torch.tanh

    def changing(y):
        with torch.no_grad():
            y.mul_(1)
        return tanh(y)

    monkeypatch.setattr(torch, "tanh", changing)
    train(probed, x, [4])
    monkeypatch.setattr(torch, "tanh", tanh)
    assert at_ends == [True, True, False]
    missing = expected.keys() - recorded(probed.monitor, 4).keys()
    assert missing >= {(f"{2 * i}", "OutputGradSndNorm") for i in range(5)}
    found = recorded(probed.monitor, 4)
    assert found == pytest.approx({key: expected[key] for key in found}, rel=2e-6)


@pytest.mark.parametrize("is_method", [False, True])
def test_gradients_that_come_before_the_graph_ends_are_read_at_each_step(is_method, at_ends):
    def with_backward_inside(graph, *_):
        (last,) = (n for n in graph.nodes if n.target == "12")
        with graph.inserting_before(last):
            if is_method:
                squares = graph.call_method("square", (last.args[0],))
                total = graph.call_method("sum", (squares,))
                graph.call_method("backward", (total,), {"retain_graph": True})
            else:
                graph.call_function(differentiated, (last.args[0],))
        return graph

    def differentiated(y):
        y.square().sum().backward(retain_graph=True)

    parts, x = [*deep(), nn.Linear(8, 8)], torch.randn(5, 8)
    cfg = {"Linear": ["OutputGradSndNorm"]}
    probed = taiyi_fx.instrument(nn.Sequential(*parts), cfg, passes=[with_backward_inside])
    train(probed, x, range(5))
    for step in range(1, 5):
        assert recorded(probed.monitor, step) == pytest.approx(recorded(probed.monitor, 0))
    assert not at_ends


def test_inputs_of_other_shapes_are_looked_at_first(at_ends):
    model = deep()
    probed = taiyi_fx.instrument(model, CFG)
    small, large = torch.randn(5, 8), torch.randn(1000, 8)
    batches = [small, small, small, large, large, small, large]
    expected = [seen(model, x) for x in batches]
    for step, x in enumerate(batches):
        train(probed, x, [step])
        assert recorded(probed.monitor, step) == pytest.approx(expected[step], rel=2e-6)
    assert at_ends == [True, True]


def test_inputs_that_hold_more_than_tensors_are_no_shapes():
    sizes = Sizes()
    sizes.noting(lambda value, given=None: value, 0)(torch.ones(2))
    for args in ((torch.ones(2), None, 3), ({"x": torch.ones(2)},), ([torch.ones(2)],)):
        for _ in range(2):
            is_known = sizes.begin(args, {"mask": torch.ones(2)})
            sizes.end()
        assert is_known is (len(args) == 3)


def test_only_so_many_shapes_are_remembered(monkeypatch):
    monkeypatch.setattr(at_end, "_MOST_SHAPES", 3)
    sizes = Sizes()
    for n in range(6):
        sizes.begin((torch.ones(n),), {})
        sizes.end()
    assert [sizes.begin((torch.ones(n),), {}) for n in range(6)] == [True] * 3 + [False] * 3


def test_a_forward_that_fails_leaves_nothing_that_waits(at_ends):
    model, x = deep(), torch.randn(5, 8)
    probed = taiyi_fx.instrument(model, CFG)
    train(probed, x, range(4))
    weight = model[6].weight.data
    model[6].weight.data = torch.ones(3, 3)
    with pytest.raises(RuntimeError, match="shapes"):
        probed(x)
    model[6].weight.data = weight
    train(probed, x, [4])
    assert at_ends == [True] * 3
    assert recorded(probed.monitor, 4) == recorded(probed.monitor, 3)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_evaluations_are_read_as_ever(mode):
    model, x = deep(), torch.randn(5, 8)
    expected = {k: v for k, v in seen(model, x).items() if k[1] == "InputSndNorm"}
    probed = taiyi_fx.instrument(model, {"Linear": ["InputSndNorm"]}, record_eval=True)
    probed.eval()
    for step in range(5):
        with mode():
            probed(x)
        probed.monitor.track(step)
        assert recorded(probed.monitor, step) == pytest.approx(expected, rel=2e-6)


def test_several_forwards_of_a_step_are_each_read():
    model, parts = deep(), torch.randn(3, 5, 8)
    each = [seen(model, x) for x in parts]
    probed = taiyi_fx.instrument(model, CFG)
    for step in range(4):
        for x in parts:
            probed(x).square().sum().backward()
        losses = [probed(x).square().sum() for x in parts]
        sum(losses).backward()
        probed.monitor.track(step)
        for key, value in recorded(probed.monitor, step).items():
            together = sum(2 * found[key] ** 2 for found in each) ** 0.5
            assert value == pytest.approx(together, rel=2e-6)


def test_what_fails_at_the_end_is_told_and_training_goes_on(monkeypatch):
    def fail(self, values):
        raise ArithmeticError("enough")

    model, x = deep(), torch.randn(5, 8)
    probed = taiyi_fx.instrument(model, {"Linear": ["InputSndNorm"]})
    train(probed, x, range(3))
    monkeypatch.setattr(ReadAtEnd, "_holds_all", fail)
    with pytest.warns(taiyi_fx.MonitorWarning, match="ArithmeticError: enough"):
        train(probed, x, [3])
    assert model[0].weight.grad is not None
