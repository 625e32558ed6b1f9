"""Gradients as hooks of nodes read them: the order of hooks, builtins that hold, several heads."""

import copy
import weakref

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.passes.probes.held import MOST, Held
from tests.passes.probes.test_held import CFG, deep, recorded, seen


def test_several_backwards_are_folded_each():
    model, parts = deep(), torch.randn(3, 5, 8)
    each = [seen(model, x) for x in parts]
    probed = taiyi_fx.instrument(model, CFG)
    for x in parts:
        probed(x).square().sum().backward()
    probed.monitor.track(0)
    values = recorded(probed.monitor)
    for key, value in values.items():
        together = sum(found[key] ** 2 for found in each) ** 0.5
        assert value == pytest.approx(together, rel=2e-6)


class DoubledGradient(torch.autograd.Function):
    """The identity; its backward writes into the gradient that it is given."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g.mul_(2)


class DoublesGradient(nn.Module):
    def forward(self, x):
        return DoubledGradient.apply(x)


def test_gradients_are_read_before_a_backward_that_writes_into_them():
    model = nn.Sequential(nn.Linear(4, 4), DoublesGradient(), nn.Tanh(), nn.Linear(4, 4))
    x, norms = torch.randn(3, 4), []
    y = model[1](model[0](x))
    y.register_hook(lambda g: norms.append(g.norm().item()))
    model[3](model[2](y)).sum().backward()
    probed = taiyi_fx.instrument(model, {"DoublesGradient": ["OutputGradSndNorm"]})
    probed(x).sum().backward()
    probed.monitor.track(0)
    assert list(recorded(probed.monitor).values()) == pytest.approx(norms, rel=1e-6)


def test_a_hook_on_the_output_comes_first():
    model, x = deep(2), torch.randn(5, 8)
    probed = taiyi_fx.instrument(nn.Sequential(*model[:3]), CFG)
    output = probed(x)
    output.register_hook(lambda g: g * 3)
    output.sum().backward()
    probed.monitor.track(0)
    norm = 3 * output.numel() ** 0.5
    assert recorded(probed.monitor)["2", "OutputGradSndNorm"] == pytest.approx(norm)


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 4)

    def forward(self, x):
        return self.rnn(x)[0]


@pytest.mark.parametrize("change", [lambda g: g * 3, lambda g: g.mul_(3)])
@pytest.mark.parametrize(
    ("model", "name"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.Identity()), "0"),
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0)), "0"),
        (Sequence(), "rnn"),
    ],
    ids=["identity", "dropout", "part"],
)
def test_a_hook_comes_first_on_an_output_that_is_handed_through(model, name, change):
    cfg = {name: ["OutputGradSndNorm"]}
    probed = taiyi_fx.instrument(model, cfg)
    output = probed(torch.randn(3, 2, 4))
    output.register_hook(change)
    (output * torch.ones(3, 2, 4)).sum().backward()
    probed.monitor.track(0)
    norm = 3 * output.numel() ** 0.5
    assert recorded(probed.monitor)[name, "OutputGradSndNorm"] == pytest.approx(norm)


class Added(nn.Module):
    """A sum, whose node hands one gradient on to all that were added."""

    def __init__(self):
        super().__init__()
        self.act = nn.Tanh()

    def forward(self, x):
        return self.act(x) + DoubledGradient.apply(x)


def test_gradients_that_others_are_given_too_are_read_at_once():
    model, x = nn.Sequential(nn.Linear(4, 4), Added(), nn.Tanh()), torch.randn(3, 4)
    norms = []
    y = model[1](model[0](x))
    y.register_hook(lambda g: norms.append(g.norm().item()))
    model[2](y).sum().backward()
    probed = taiyi_fx.instrument(model, {"Added": ["OutputGradSndNorm"]})
    probed(x).sum().backward()
    probed.monitor.track(0)
    assert list(recorded(probed.monitor).values()) == pytest.approx(norms, rel=1e-6)


def warm(probed, steps=2):
    """Steps after which gradients are held by a builtin."""
    for step in range(steps):
        probed(torch.randn(5, 8)).square().sum().backward()
        probed.monitor.track(step)
    assert probed.monitor._tracker._table.board.held.lists == {}
    return probed.monitor._tracker._table.board.held


def test_from_the_second_step_on_a_builtin_holds_gradients():
    model, x = deep(), torch.randn(5, 8)
    expected = seen(model, x)
    probed = taiyi_fx.instrument(model, CFG)
    held = warm(probed)
    loss = probed(x).square().sum()
    assert len(held.lists) == 5  # that of the model's output comes to a function
    alive = [weakref.ref(g) for g in held.tensors]
    loss.backward()
    assert not held.tensors
    assert not any(held.lists.values())
    assert not any(ref() is not None for ref in alive)
    probed.monitor.track(2)
    assert recorded(probed.monitor, 2) == pytest.approx(expected, rel=2e-6)


def test_several_backwards_of_held_gradients_are_folded_each():
    model, parts = deep(), torch.randn(3, 5, 8)
    each = [seen(model, x) for x in parts]
    probed = taiyi_fx.instrument(model, CFG)
    warm(probed)
    for loss in [probed(x).square().sum() for x in parts]:
        loss.backward()
    probed.monitor.track(2)
    for key, value in recorded(probed.monitor, 2).items():
        together = sum(found[key] ** 2 for found in each) ** 0.5
        assert value == pytest.approx(together, rel=2e-6)


def test_a_backward_that_is_differentiated_is_read():
    model, x = deep(), torch.randn(5, 8)
    expected = seen(model, x)
    probed = taiyi_fx.instrument(model, {"Linear": ["OutputGradSndNorm"]})
    warm(probed)
    torch.autograd.grad(probed(x).square().sum(), list(probed.parameters()), create_graph=True)
    probed.monitor.track(2)
    for key, value in recorded(probed.monitor, 2).items():
        assert value == pytest.approx(expected[key], rel=2e-6)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return torch.tanh(self.a(x)), torch.tanh(self.b(x))


def test_gradients_of_a_part_of_the_graph_are_read():
    """Backward never comes to the last tensor, whose gradient would have said when it ends."""
    probed = taiyi_fx.instrument(TwoHeads(), {"Linear": ["OutputGradSndNorm"]})
    for step in range(3):
        y, z = probed(torch.zeros(5, 8))
        (y + z if step < 2 else y).sum().backward()
        if step == 2:
            with pytest.warns(taiyi_fx.MonitorWarning, match="no gradient reached it"):
                probed.monitor.track(step)
        else:
            probed.monitor.track(step)
    slope = (1 - torch.tanh(probed.a.bias) ** 2).expand(5, 8).norm().item()
    values = recorded(probed.monitor, 2)
    assert values == {("a", "OutputGradSndNorm"): pytest.approx(slope, rel=2e-6)}


def test_a_gradient_that_comes_in_another_version_is_told_once_and_read_again():
    probed = taiyi_fx.instrument(deep(3), {"Linear": ["OutputGradSndNorm"]})
    held = warm(probed)
    loss = probed(torch.randn(5, 8)).square().sum()
    for turn in held.lists:
        turn.hook.version += 1
    loss.backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="changed in place before it was read"):
        probed.monitor.track(2)
    for step in (3, 4):
        probed(torch.randn(5, 8)).square().sum().backward()
        probed.monitor.track(step)
        assert len(recorded(probed.monitor, step)) == 3


def test_a_batch_of_gradients_is_told_when_it_was_held():
    probed = taiyi_fx.instrument(deep(3), {"Linear": ["OutputGradSndNorm"]})
    warm(probed)
    y = probed(torch.randn(5, 8))
    torch.autograd.grad(
        y, list(probed.parameters()), torch.eye(40).view(40, 5, 8), is_grads_batched=True
    )
    with pytest.warns(taiyi_fx.MonitorWarning, match="as a batch"):
        probed.monitor.track(2)
    assert not recorded(probed.monitor, 2)


def test_a_larger_batch_is_not_held():
    model, x = deep(), torch.randn(1000, 8)
    expected = seen(model, x)
    probed = taiyi_fx.instrument(model, CFG)
    held = warm(probed)
    loss = probed(x).square().sum()
    assert not held.lists
    assert not held.tensors
    loss.backward()
    probed.monitor.track(2)
    assert recorded(probed.monitor, 2) == pytest.approx(expected, rel=2e-6)


def test_no_more_gradients_are_held_than_fit_four_megabytes():
    model, x = deep(MOST + 50), torch.randn(5, 8)
    probed = taiyi_fx.instrument(model, {"Linear": ["OutputGradSndNorm"]})
    held = warm(probed)
    loss = probed(x).square().sum()
    assert len(held.hung) == MOST
    loss.backward()
    probed.monitor.track(2)
    assert len(recorded(probed.monitor, 2)) == MOST + 50


def test_a_forward_that_fails_takes_nothing_of_the_one_before_it():
    model, x = deep(), torch.randn(5, 8)
    expected = seen(model, x)
    probed = taiyi_fx.instrument(model, CFG)
    warm(probed)
    loss = probed(x).square().sum()
    with pytest.raises(RuntimeError):
        probed(torch.randn(5, 7))
    loss.backward()
    probed.monitor.track(2)
    assert recorded(probed.monitor, 2) == pytest.approx(expected, rel=2e-6)


def test_gradients_that_come_after_their_step_belong_to_the_next():
    model, x = deep(), torch.randn(5, 8)
    expected = seen(model, x)
    probed = taiyi_fx.instrument(model, {"Linear": ["OutputGradSndNorm"]})
    warm(probed)
    probed(torch.randn(5, 8)).square().sum().backward()
    loss = probed(x).square().sum()
    probed.monitor.track(2)
    loss.backward()
    probed.monitor.track(3)
    for key, value in recorded(probed.monitor, 3).items():
        assert value == pytest.approx(expected[key], rel=2e-6)
    assert len(recorded(probed.monitor, 3)) == 6


class TwoDeepHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = deep(3), deep(3)

    def forward(self, x):
        return self.first(x), self.second(x)


def test_gradients_are_those_of_the_head_whose_loss_it_was():
    """As many gradients of the same shapes arrive each time, but not of the same layers."""
    model, cfg = TwoDeepHeads(), {"Linear": ["OutputGradSndNorm"]}
    probed = taiyi_fx.instrument(model, cfg)
    for step in range(3):
        sum(y.square().sum() for y in probed(torch.randn(5, 8))).backward()
        probed.monitor.track(step)
    for step, head in enumerate((0, 1, 0), start=3):
        x, name = torch.randn(5, 8), ("first", "second")[head]
        expected = seen(getattr(model, name), x)
        probed(x)[head].square().sum().backward()
        with pytest.warns(taiyi_fx.MonitorWarning, match="no gradient reached"):
            probed.monitor.track(step)
        found = recorded(probed.monitor, step)
        assert {module.partition(".")[0] for module, _ in found} == {name}
        for (module, quantity), value in found.items():
            layer = module.partition(".")[2]
            assert value == pytest.approx(expected[layer, quantity], rel=2e-6)
        assert len(found) == 3


class WritesPastTheVersion(torch.autograd.Function):
    """Doubles the gradient in place, as a kernel of one's own may: no version counts it."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        n = g.numpy()
        n *= 2
        return g


def test_a_gradient_that_is_written_into_past_its_version_is_read_as_it_came():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            h = self.a(x)
            return self.c(self.b(h) + WritesPastTheVersion.apply(h))  # the sum hands one to both

    plain = Branches()
    watched = taiyi_fx.instrument(copy.deepcopy(plain), {"b": ["OutputGradRMS"]})
    true = []
    plain.b.register_forward_hook(
        lambda module, given, made: (
            made.register_hook(
                lambda g: true.append(g.double().square().mean().sqrt().item()) or None
            )
            and None
        )
    )
    for step in range(4):
        x = torch.randn(3, 4)
        for model in (plain, watched):
            model(x).square().sum().backward()
        watched.monitor.track(step)
    assert not watched.monitor.missing
    read = watched.monitor.get_output()["b"]["OutputGradRMS"]
    assert [*read.values()] == pytest.approx(true, rel=1e-6)


@pytest.mark.parametrize(("of", "is_held"), [(4, True), (100_000, False)])
@pytest.mark.parametrize("stays", [True, False])
def test_a_gradient_that_is_a_view_of_much_is_not_held(of, is_held, stays):
    room, taken = Held(), []
    x = torch.ones(4, requires_grad=True)
    part = torch.zeros(of)[:4]
    x.register_hook(lambda _: taken.append(room.takes_gradient(part, (), stays=stays)) or None)
    x.sum().backward()
    assert taken == [is_held]
