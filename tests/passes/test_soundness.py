"""Forwards whose graph would once have been something else than the model."""

import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx

CFG = {"fc": ["InputSndNorm", "OutputGradSndNorm"]}
ACT = torch.relu


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.act, self.mask = nn.Linear(4, 4), F.relu, torch.ones(4)
        self.more, self.part = nn.ModuleList(), Part()
        self.settings = Settings

    def mix(self, y):
        return y * 2


class Settings:
    factor = 2.0


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 1
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        self.n = x.shape[0]
        self.seen = self.seen + 1
        return x

    def count(self):
        return self.n

    def state(self):
        return self.seen


class Fills(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, d):
        d["h"] = self.fc(d["h"])


def halves_a_number(self, x):
    n = x.shape[-1]
    half = n
    half //= 2
    return self.fc(x)[:, :half] * n


def reads_what_a_part_left(self, x):
    before = self.part.state()
    y = self.part(self.fc(x))
    return y / self.part.count() + self.part.state() - before


def asks_for_a_gradient(self, x):
    y = self.fc(x)
    return y * 3 if self.fc.weight.grad is None else y


def uses_a_function_it_holds(self, x):
    return self.act(self.fc(x))


def uses_its_method(self, x):
    return self.mix(self.fc(x))


def uses_a_tensor_it_holds(self, x):
    return self.fc(x) * self.mask


def uses_a_global_function(self, x):
    return ACT(self.fc(x))


def reads_through_a_class_it_holds(self, x):
    return self.fc(x) * self.settings.factor


def reads_by_a_getter(self, x):
    return self.fc(x) * operator.attrgetter("part.n")(self)


def reads_an_item_of_its_children(self, x):
    return self.fc(x) * list(self.children())[2].n


def runs_what_is_added(self, x):
    x = self.fc(x)
    for layer in self.more:
        x = layer(x)
    return x


def takes_any_number(self, x, *rest, scale=2.0):
    return self.fc(x) * scale + rest[0]


def changes_a_default(self, x, cache=[0]):  # noqa: B006 - what it is about
    cache[0] = cache[0] + 1
    return self.fc(x) * cache[0]


def nothing(model):
    pass


def setting(name, value):
    def change(model):
        setattr(model, name, value)

    return change


def made(forward):
    return type("Made", (Holder,), {"forward": forward})()


CASES = [
    (halves_a_number, nothing),
    (reads_what_a_part_left, nothing),
    (asks_for_a_gradient, nothing),
    (uses_a_function_it_holds, setting("act", torch.tanh)),
    (uses_its_method, setting("mix", torch.tanh)),
    (uses_a_tensor_it_holds, setting("mask", torch.zeros(4))),
    (reads_through_a_class_it_holds, setting("settings", type("Other", (), {"factor": 3.0}))),
    (reads_by_a_getter, lambda model: setattr(model.part, "n", 5)),
    (reads_an_item_of_its_children, lambda model: setattr(model.part, "n", 5)),
    (runs_what_is_added, lambda model: model.more.append(nn.ReLU())),
]


@pytest.mark.parametrize(("forward", "change"), CASES, ids=lambda f: f.__name__)
def test_what_is_run_is_the_model_before_and_after_a_change(forward, change):
    plain, probed = made(forward), taiyi_fx.instrument(made(forward), CFG)
    x = torch.randn(3, 4)
    assert torch.equal(plain(x), probed(x))
    for model in (plain, probed):
        change(model)
    assert torch.equal(plain(x), probed(x))


def test_a_global_function_may_be_another_later(monkeypatch):
    plain, probed = made(uses_a_global_function), made(uses_a_global_function)
    probed, x = taiyi_fx.instrument(probed, CFG), torch.randn(3, 4)
    assert str(probed.capture) == "one graph"
    monkeypatch.setitem(globals(), "ACT", torch.tanh)
    assert torch.equal(plain(x), probed(x))


def test_a_class_may_get_another_forward(monkeypatch):
    plain, probed = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), None
    probed, x = taiyi_fx.instrument(plain, {"0": ["InputSndNorm"]}), torch.randn(3, 4)
    monkeypatch.setattr(nn.Tanh, "forward", lambda self, x: x * 7)
    assert torch.equal(plain(x), probed(x))


def test_signatures_and_defaults_that_no_graph_keeps_stay_python():
    x = torch.randn(3, 4)
    plain, probed = made(takes_any_number), taiyi_fx.instrument(made(takes_any_number), CFG)
    assert torch.equal(plain(x, x, x), probed(x, x, x))
    probed = taiyi_fx.instrument(made(changes_a_default), CFG)
    assert "has a default that it may change" in str(probed.capture)


@pytest.mark.parametrize("wrap", [lambda f: f, torch.enable_grad()], ids=["graph", "python"])
def test_what_a_target_puts_into_a_dictionary_stays(wrap):
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.fills = Fills()

        @wrap
        def forward(self, x):
            d = {"h": x * 1}
            self.fills(d)
            return d["h"]

    x = torch.randn(3, 4, requires_grad=True)
    for name in ("InputSndNorm", "BackwardInput"):
        probed = taiyi_fx.instrument(Whole(), {"fills": [name]})
        assert torch.equal(Whole()(x), probed(x))


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.kept = nn.Parameter(torch.ones(4)), None

    def forward(self, x):
        self.kept = x * self.weight
        return self.kept


class UsesKept(nn.Module):
    def __init__(self):
        super().__init__()
        self.keeps, self.act = Keeps(), nn.LeakyReLU(0.1, inplace=True)

    def forward(self, x):
        return self.act(self.keeps(x)) + self.keeps.kept


class OwnForward(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.b.forward = lambda x: x

    def forward(self, x):
        h = self.a(x)
        self.b(h).mul_(3)
        return h * 1


@pytest.mark.parametrize(("kind", "target"), [(UsesKept, "keeps"), (OwnForward, "b")])
def test_an_output_that_has_another_name_may_be_changed_in_place(kind, target):
    plain, probed = kind(), taiyi_fx.instrument(kind(), {target: ["OutputGradSndNorm"]})
    for model in (plain, probed):
        model(-torch.ones(2, 4)).sum().backward()
    for a, b in zip(plain.parameters(), probed.parameters(), strict=True):
        assert (a.grad is None and b.grad is None) or torch.equal(a.grad, b.grad)


def test_a_gradient_read_at_the_users_own_tensor_leaves_no_hook():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 4))
    probed = taiyi_fx.instrument(model, {"0": ["OutputGradSndNorm"]})
    x = torch.ones(3, 4, requires_grad=True)
    for step in range(3):
        probed(x).sum().backward()
        probed.monitor.track(step)
    found = probed.monitor.get_output()["0"]["OutputGradSndNorm"]
    assert len(set(found.values())) == 1
    assert not x._backward_hooks


def test_a_part_called_directly_is_kept_when_a_forward_fails():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    probed = taiyi_fx.instrument(model, {"0": ["InputSndNorm"]})
    x = torch.ones(2, 4)
    with probed.monitor.reading():
        probed[0](x)
    with pytest.raises(RuntimeError):
        probed(torch.ones(2, 3))
    probed.monitor.track(0)
    found = probed.monitor.get_output()["0"]["InputSndNorm"][0]
    assert found == pytest.approx(x.norm().item())


class Held:
    def __init__(self):
        self.is_open = True

    def __del__(self):
        self.is_open = False
        CLOSED.append(self)


CLOSED = []


def test_what_has_a_finalizer_is_not_copied():
    model = nn.Sequential(nn.Linear(4, 4))
    model.held = Held()
    taiyi_fx.instrument(model, {"0": ["InputSndNorm"]})
    assert model.held.is_open
    assert CLOSED == []
