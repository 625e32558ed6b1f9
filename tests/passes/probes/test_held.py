"""Small tensors wait for each other, and are read as if they had not."""

import contextlib
import gc
import weakref

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.passes.probes import accumulate
from taiyi_fx.passes.probes.held import MOST, Held, are_held
from taiyi_fx.reductions import AbsMax, Norm
from tests.passes.probes.given import group_of, slot_of

CFG = {"Linear": ["InputSndNorm", "OutputGradSndNorm"]}


def deep(layers=6, width=8):
    torch.manual_seed(0)
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.Tanh())]
    return nn.Sequential(*parts)


def seen(model, x):
    """The norms of inputs and output gradients of linear layers, in float64."""
    found, made = {}, {}

    def keep(name):
        def hook(module, args, output):
            found[name, "InputSndNorm"] = args[0].detach().double().norm().item()
            output.retain_grad()
            made[name] = output

        return hook

    handles = [
        m.register_forward_hook(keep(n)) for n, m in model.named_modules() if type(m) is nn.Linear
    ]
    model(x).square().sum().backward()
    for handle in handles:
        handle.remove()
    norms = {(n, "OutputGradSndNorm"): y.grad.double().norm().item() for n, y in made.items()}
    return found | norms


def recorded(monitor, step=0):
    return {(r.module, r.quantity): r.value for r in monitor.records if r.step == step}


@pytest.mark.parametrize("layers", [3, 40])  # 80 readings are more than wait at once
@pytest.mark.parametrize("scale", [1.0, 1e-25, 1e25])
def test_what_waited_has_the_values_of_float64(layers, scale):
    model, x = deep(layers), torch.randn(5, 8)
    with torch.no_grad():
        model[0].weight.mul_(scale)
        model[0].bias.mul_(scale)
    expected = seen(model, x)
    probed = taiyi_fx.instrument(model, CFG)
    probed(x).square().sum().backward()
    probed.monitor.track(0)
    assert recorded(probed.monitor) == pytest.approx(expected, rel=2e-6, abs=0)


def test_zeros_and_what_is_not_finite():
    model = deep(2)
    probed = taiyi_fx.instrument(model, CFG)
    probed(torch.zeros(5, 8)).mul(float("inf")).sum().backward()
    probed.monitor.track(0)
    values = recorded(probed.monitor)
    assert values["0", "InputSndNorm"] == 0
    assert values["2", "OutputGradSndNorm"] == float("inf")


def test_nothing_waits_when_backward_is_over(monkeypatch):
    model, alive = deep(), []
    take = Held._taken

    def taken(self, are_last):
        found = take(self, are_last)
        alive.extend(map(weakref.ref, found[0]))
        return found

    monkeypatch.setattr(Held, "_taken", taken)
    probed = taiyi_fx.instrument(model, CFG)
    loss = probed(torch.randn(5, 8)).square().sum()
    loss.backward()
    del loss
    gc.collect()
    assert len(alive) == 12
    assert all(ref() is None for ref in alive)


def test_a_forward_without_backward_keeps_no_more_than_a_megabyte():
    probed = taiyi_fx.instrument(deep(100, 32), {"Linear": ["InputSndNorm"]})
    probed(torch.randn(64, 32))
    waiting = probed.monitor._tracker._table.board.held
    assert 0 < len(waiting.tensors) < MOST
    assert sum(x.nbytes for x in waiting.tensors) <= 2**20
    probed.monitor.track(0)
    assert not waiting.tensors
    assert len(probed.monitor.records) == 100


def test_a_backward_that_fails_leaves_nothing_to_the_next_step():
    model, x = deep(), torch.randn(5, 8)
    expected = seen(model, x)
    probed = taiyi_fx.instrument(model, CFG)

    def refuse(g):
        raise ArithmeticError("enough")

    probed[2].weight.register_hook(refuse)
    with pytest.raises(ArithmeticError):
        probed(torch.randn(5, 8)).square().sum().backward()
    probed[2].weight._backward_hooks.clear()
    with pytest.warns(taiyi_fx.MonitorWarning, match="no gradient reached"):
        probed.monitor.track(0)
    probed(x).square().sum().backward()
    probed.monitor.track(1)
    assert recorded(probed.monitor, 1) == pytest.approx(expected, rel=2e-6)


def test_what_may_be_changed_while_it_waits_is_read_as_it_was():
    """The owner of an input writes the next batch into it before backward ends."""
    model, x = deep(), torch.randn(5, 8)
    expected = seen(model, x)
    probed = taiyi_fx.instrument(model, {"Linear": ["InputSndNorm"]})
    for step in range(2):  # a careful forward and a fast one
        given = x.clone()
        probed(given)
        given.fill_(7)
        probed.monitor.track(step)
        for (module, quantity), value in recorded(probed.monitor, step).items():
            assert value == pytest.approx(expected[module, quantity], rel=2e-6)


def test_a_copy_that_cannot_be_made_is_told(monkeypatch):
    def takes(*args, **kwargs):
        raise MemoryError("no room")

    monkeypatch.setattr(Held, "takes", takes)
    probed = taiyi_fx.instrument(deep(2), {"0": ["InputSndNorm"]})
    probed(torch.randn(6, 8)[:5])
    with pytest.warns(taiyi_fx.MonitorWarning, match="no room"):
        probed.monitor.track(0)


class WithoutGradient(torch.autograd.Function):
    """The identity; its backward brings no gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return None


@pytest.mark.parametrize("keeps_graph", [False, True])
def test_a_backward_that_brings_no_gradient_leaves_other_readings(keeps_graph):
    """A builtin holds what it is given, also None."""
    model = deep()
    probed = taiyi_fx.instrument(model, CFG)
    for step in range(5):
        y = probed(torch.randn(5, 8))
        y = WithoutGradient.apply(y) if step in (0, 4) else y
        y.square().sum().backward(retain_graph=keeps_graph)
        with pytest.warns() if step in (0, 4) else contextlib.nullcontext():
            probed.monitor.track(step)
    for step, quantities in enumerate([CFG["Linear"][:1], *3 * [CFG["Linear"]]]):
        values = recorded(probed.monitor, step)
        assert {quantity for _, quantity in values} == {*quantities}
        assert len(values) == 6 * len(quantities)
    assert recorded(probed.monitor, 4).keys() == recorded(probed.monitor, 0).keys()
    assert "no gradient reached it" in str(probed.monitor.missing)


def test_what_was_changed_in_place_while_it_waited_is_told():
    slot = slot_of("input")
    room, x = Held(), torch.ones(3)
    assert room.takes(x, ((Norm(), (slot,)),))
    x.add_(1)
    room.measure()
    assert slot.state is None
    assert "changed in place" in str(slot.failure)


def test_what_cannot_be_measured_together_is_measured_alone():
    class Refuses(Norm):
        def measure_many(self, tensors):
            raise ArithmeticError("not together")

    reduction = Refuses()
    slots = [slot_of("input", reduction) for _ in range(2)]
    room = Held()
    for i, slot in enumerate(slots):
        assert room.takes(torch.full((4,), float(i)), ((reduction, (slot,)),))
    room.measure()
    assert [slot.state for slot in slots] == [(0.0,), (2.0,)]


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(5000),
        torch.zeros(3, dtype=torch.float64),
        torch.zeros(3, dtype=torch.bfloat16),
        torch.zeros(3, device="meta"),
        nn.Parameter(torch.zeros(3)),
        torch.zeros(3, dtype=torch.complex64).conj().imag,
        torch.zeros(5000)[:3],
        torch.zeros(3).to_sparse(),
    ],
    ids=["large", "float64", "bfloat16", "meta", "parameter", "negative", "view", "sparse"],
)
def test_what_does_not_wait(x):
    assert not Held().takes(x, (group_of(slot_of("input")),))


def test_only_what_measures_many_waits():
    slot = slot_of("input", AbsMax())
    assert not are_held([(AbsMax(), (slot,))])
    assert are_held([(Norm(), (slot,))])


def test_a_measure_of_ones_own_is_what_counts():
    """Whoever derives a stock reduction and overrides `measure` does not get its quick ways."""

    class Doubled(Norm):
        def measure(self, x):
            return (2 * super().measure(x)[0],)

    slot = slot_of("input", Doubled())
    groups = ((slot.reading.reduction, (slot,)),)
    assert not are_held(groups)
    accumulate.fold(torch.ones(4), groups)
    assert slot.state == (4.0,)


def test_a_chain_of_thousands_of_probes_is_instrumented():
    model = nn.Sequential(*(nn.Identity() for _ in range(1500)))
    probed = taiyi_fx.instrument(model, {"Identity": ["OutputGradSndNorm"]})
    probed(torch.ones(2, requires_grad=True)).sum().backward()
    probed.monitor.track(0)
    assert len(probed.monitor.records) == 1500


class Narrowed(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.act = nn.Linear(4, 4), nn.Tanh()

    def forward(self, x, width):
        return self.act(self.before(x)[:, :width])


def test_what_does_not_merge_is_told_and_ends_no_backward():
    probed = taiyi_fx.instrument(Narrowed(), {"Tanh": ["OutputGradCovCondition"]})
    for width in (4, 3):
        probed(torch.randn(6, 4), width).square().sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="Sizes of tensors must match"):
        probed.monitor.track(0)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors_do_not_wait():
    probed = taiyi_fx.instrument(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), CFG)
    y = probed(torch.nested.nested_tensor([torch.randn(2, 8), torch.randn(3, 8)]))
    torch.nested.to_padded_tensor(y, 0.0).sum().backward()
    assert not probed.monitor._tracker._table.board.held.tensors


def test_the_graph_does_not_wait_with_a_tensor():
    probed = taiyi_fx.instrument(deep(), {"Linear": ["InputSndNorm"]})
    probed(torch.randn(5, 8))
    waiting = probed.monitor._tracker._table.board.held.tensors
    assert len(waiting) == 6
    assert all(x.grad_fn is None for x in waiting)


def test_all_is_measured_when_a_backward_is_done_again_after_it_failed():
    model = deep()
    probed = taiyi_fx.instrument(model, CFG)
    loss = probed(torch.randn(5, 8)).square().sum()

    def refuse(g):
        raise ArithmeticError("enough")

    handle = model[2].weight.register_hook(refuse)
    with pytest.raises(ArithmeticError):
        loss.backward(retain_graph=True)
    handle.remove()
    loss.backward()
    assert not probed.monitor._tracker._table.board.held.tensors


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # of the compiler, about what it goes through
def test_compiled_autograd():
    probed, x = taiyi_fx.instrument(deep(), CFG), torch.randn(5, 8)
    probed(x).square().sum().backward()
    probed.monitor.track(0)
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        probed(x).square().sum().backward()
    probed.monitor.track(1)
    assert recorded(probed.monitor, 1) == pytest.approx(recorded(probed.monitor, 0), rel=2e-6)


def test_what_waits_is_given_up_with_all_else_when_the_model_moves():
    probed = taiyi_fx.instrument(deep(), CFG)
    probed(torch.randn(5, 8))
    assert probed.monitor._tracker._table.board.held.tensors
    probed.monitor._tracker._table.drop()
    assert not probed.monitor._tracker._table.board.held.tensors
