"""The optimizer's state and steps, against float64 and against what real optimizers do."""

import gc
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx.optimizers import trained
from tests.quantities.references.optimizer import adam_step, lost, moment, root_mean_square

ALL = ["FirstMoment", "SecondMoment", "EffectiveStep", "UpdateLost"]
FORMS = st.sampled_from(["single", "foreach", "fused"])


def form_of(name):
    return {} if name == "single" else {name: True}


def net(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).to(dtype)


def backward(model, dtype=torch.float32, factor=1.0):
    model.zero_grad()
    (factor * model(torch.randn(6, 4, dtype=dtype)).square().mean()).backward()


def last(watched, step=None):
    """The values of a step, by module and quantity."""
    return {
        (module, name): of[max(of) if step is None else step]
        for module, every in watched.monitor.get_output().items()
        for name, of in every.items()
        if step is None or step in of
    }


def parameters(model):
    return {(f"{i}", name): p for i in (0, 2) for name, p in model[i].named_parameters()}


@settings(deadline=None, max_examples=30)
@given(
    kind=st.sampled_from([torch.optim.Adam, torch.optim.AdamW]),
    form=FORMS,
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    amsgrad=st.booleans(),
    steps=st.integers(1, 4),
    lr=st.sampled_from([1e-2, 3e-6]),
)
def test_moments_and_steps_of_adam_are_those_of_its_state(kind, form, dtype, amsgrad, steps, lr):
    if form == "fused" and dtype is torch.float64:
        amsgrad = False
    model = net(dtype)
    optimizer = kind(model.parameters(), lr=lr, amsgrad=amsgrad, **form_of(form))
    watched = taiyi_fx.instrument(model, {"Linear": ALL}, optimizer=optimizer)
    for step in range(steps):
        backward(watched, dtype)
        watched.monitor.track(step)
        optimizer.step()
    watched.monitor.track(steps)
    found, group = last(watched, steps), optimizer.param_groups[0]
    for (module, name), p in parameters(model).items():
        state = dict(optimizer.state[p])
        first = moment(state, "exp_avg", 0.9)
        assert found[module, f"FirstMoment.{name}"] == pytest.approx(first, rel=1e-5)
        second = moment(state, "exp_avg_sq", 0.999)
        assert found[module, f"SecondMoment.{name}"] == pytest.approx(second, rel=1e-5)
        if amsgrad:
            state["exp_avg_sq"] = state["max_exp_avg_sq"]
        u = adam_step(state, group)
        assert found[module, f"EffectiveStep.{name}"] == pytest.approx(
            root_mean_square(u), rel=1e-5
        )
        if dtype is torch.bfloat16:
            share = found[module, f"UpdateLost.{name}"]
            assert share == pytest.approx(lost(p.detach(), u), abs=1e-9)


LAST = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1),
    "rmsprop with momentum": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
}
COMING = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1, maximize=True),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, weight_decay=0.1),
    "centered": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.1),
    "clipped adafactor": lambda p: torch.optim.Adafactor(p, lr=0.1, d=1.0, maximize=True),
}


@pytest.mark.parametrize("form", ["single", "foreach"])
@pytest.mark.parametrize("name", [*LAST, *COMING])
def test_a_step_is_what_the_optimizer_moves_the_parameter_by(name, form):
    model = net(torch.float64)
    optimizer = {**LAST, **COMING}[name](model.parameters())
    for group in optimizer.param_groups:
        group["foreach"] = form == "foreach"
    watched = taiyi_fx.instrument(model, {"Linear": ["EffectiveStep"]}, optimizer=optimizer)
    moved = []
    for step in range(4):
        backward(watched, torch.float64)
        watched.monitor.track(step)
        before = {at: p.detach().clone() for at, p in parameters(model).items()}
        optimizer.step()
        moved.append({at: before[at] - p.detach() for at, p in parameters(model).items()})
    for step in range(4):
        found = last(watched, step)
        if name in LAST and step == 0:
            assert found == {}
            continue
        of = moved[step - 1 if name in LAST else step]
        for (module, parameter), u in of.items():
            value = found[module, f"EffectiveStep.{parameter}"]
            assert value == pytest.approx(root_mean_square(u), rel=1e-6)


def test_what_bfloat16_loses_is_what_stays_where_it_was():
    model = nn.Linear(64, 64, bias=False).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
    watched = taiyi_fx.instrument(model, {"": ["UpdateLost"]}, optimizer=optimizer)
    shares = []
    for step in range(8):
        x = torch.randn(16, 64, dtype=torch.bfloat16)
        watched(x).square().mean().backward()
        watched.monitor.track(step)
        before = model.weight.detach().clone()
        optimizer.step()
        optimizer.zero_grad()
        shares.append((model.weight == before).double().mean().item())
    watched.monitor.track(8)
    found = watched.monitor.get_output()[""]["UpdateLost.weight"]
    assert 0.2 < shares[0] < 0.9
    for step, share in enumerate(shares, start=1):  # the step before, on where it led to
        assert found[step] == pytest.approx(share, abs=0.03)


def test_at_a_low_rate_the_stored_update_is_far_from_the_step_and_ours_is_not():
    model = nn.Linear(256, 256, bias=False).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-6, weight_decay=0.0)
    cfg = {"": ["UpdateRatio", "EffectiveStep", "ParameterRMS", "UpdateLost"]}
    watched = taiyi_fx.instrument(model, cfg, optimizer=optimizer)
    for step in range(6):
        x = torch.randn(16, 256, dtype=torch.bfloat16)
        watched(x).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    watched.monitor.track(6)
    found = {name: of[6] for name, of in watched.monitor.get_output()[""].items()}
    u = adam_step(optimizer.state[model.weight], optimizer.param_groups[0])
    exact = root_mean_square(u) / root_mean_square(model.weight.detach())
    ours = found["EffectiveStep.weight"] / found["ParameterRMS.weight"]
    naive = found["UpdateRatio.weight"]
    assert ours == pytest.approx(exact, rel=1e-5)
    assert exact / naive > 5
    assert found["UpdateLost.weight"] > 0.98


def test_nothing_is_lost_where_nothing_moves_and_nan_stays_nan():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, {"0": ["UpdateLost"]}, optimizer=optimizer)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    watched.monitor.track(0)
    assert last(watched)["0", "UpdateLost.weight"] == 0
    model[0].weight.grad[0, 0] = torch.nan
    watched.monitor.track(1)
    assert last(watched)["0", "UpdateLost.weight"] != last(watched)["0", "UpdateLost.weight"]


def test_a_gradient_is_that_of_the_true_loss_under_a_scaler():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    watched = taiyi_fx.instrument(model, {"0": ["EffectiveStep"]}, optimizer=optimizer)
    scaler.scale(watched(torch.randn(6, 4)).square().mean()).backward()
    watched.monitor.track(0, grad_scale=scaler)
    scaler.unscale_(optimizer)
    expected = 0.1 * root_mean_square(model[0].weight.grad)
    assert last(watched)["0", "EffectiveStep.weight"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adafactor])
def test_a_large_parameter_has_the_values_of_its_pieces(kind, monkeypatch):
    def recorded(piece):
        monkeypatch.setattr(trained, "_ON_HOST", piece)
        torch.manual_seed(0)
        model = nn.Linear(30, 20).to(torch.bfloat16)
        optimizer = kind(model.parameters(), lr=1e-3)
        cfg = {"": ["SecondMoment", "EffectiveStep", "UpdateLost"]}
        watched = taiyi_fx.instrument(model, cfg, optimizer=optimizer)
        for step in range(2):
            watched(torch.randn(8, 30, dtype=torch.bfloat16)).square().mean().backward()
            watched.monitor.track(step)
            optimizer.step()
        return {name: of[1] for name, of in watched.monitor.get_output()[""].items()}

    assert recorded(7) == pytest.approx(recorded(10_000), rel=1e-6)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adafactor])
@pytest.mark.parametrize("piece", [3, 7, 10_000])
def test_leading_elements_alone_may_be_asked_for(kind, piece, monkeypatch):
    monkeypatch.setattr(trained, "_ON_HOST", piece)
    model = nn.Linear(5, 4)
    optimizer = kind(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(
        model, {"": [["EffectiveStep", "every(1)", {"max_elements": 7}]]}, optimizer=optimizer
    )
    watched(torch.randn(8, 5)).square().mean().backward()
    watched.monitor.track(0)
    before = model.weight.detach().clone()
    optimizer.step()
    u = (before - model.weight.detach()).reshape(-1)[:7]
    found = watched.monitor.get_output()[""]["EffectiveStep.weight"][0]
    assert found == pytest.approx(root_mean_square(u), rel=1e-4)


def test_each_parameter_is_looked_up_in_its_group_and_its_optimizer():
    model = net(torch.float64)
    of_first = torch.optim.AdamW(
        [{"params": [model[0].weight], "lr": 0.5}, {"params": [model[0].bias], "lr": 0.25}]
    )
    of_second = torch.optim.SGD(model[2].parameters(), lr=0.125, momentum=0.5)
    watched = taiyi_fx.instrument(
        model, {"Linear": ["EffectiveStep"]}, optimizer=[of_first, of_second]
    )
    backward(watched, torch.float64)
    of_first.step()
    of_second.step()
    watched.monitor.track(0)
    found = last(watched)
    assert found["0", "EffectiveStep.weight"] == pytest.approx(0.5, rel=1e-4)
    assert found["0", "EffectiveStep.bias"] == pytest.approx(0.25, rel=1e-4)
    expected = 0.125 * root_mean_square(model[2].weight.grad)
    assert found["2", "EffectiveStep.weight"] == pytest.approx(expected, rel=1e-6)


def test_a_parameter_without_a_gradient_keeps_its_state_and_one_never_updated_has_none():
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    watched = taiyi_fx.instrument(model, {"Linear": ["FirstMoment"]}, optimizer=optimizer)
    backward(watched)
    for p in model[2].parameters():
        p.grad = None
    optimizer.step()
    optimizer.zero_grad()
    watched.monitor.track(0)
    assert {module for module, _ in last(watched)} == {"0"}
    assert watched.monitor.missing["2", "FirstMoment.weight"] == (
        "the optimizer has not updated it yet"
    )
    assert model[2].weight not in optimizer.state  # looking makes nothing


def test_moments_of_a_complex_parameter_are_those_of_its_two_parts():
    model = nn.Linear(3, 2, bias=False, dtype=torch.complex64)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, {"": ALL}, optimizer=optimizer)
    watched(torch.randn(4, 3, dtype=torch.complex64)).abs().sum().backward()
    optimizer.step()
    watched.monitor.track(0)
    found = {name: of[0] for name, of in watched.monitor.get_output()[""].items()}
    g = torch.view_as_real(model.weight.grad).double()
    assert found["FirstMoment.weight"] == pytest.approx(g.norm().item(), rel=1e-5)
    assert found["SecondMoment.weight"] == pytest.approx(g.square().norm().item(), rel=1e-5)
    assert found["EffectiveStep.weight"] == pytest.approx(0.1, rel=1e-4)


def test_the_step_of_another_optimizer_is_as_it_was_described():
    class Lion(torch.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                    p.sub_(group["lr"] * (0.9 * m + 0.1 * p.grad).sign())
                    m.mul_(0.99).add_(p.grad, alpha=0.01)

    model = net(torch.bfloat16)
    optimizer = Lion(model.parameters(), lr=1e-3)
    cfg = {"Linear": ["FirstMoment", "EffectiveStep", "UpdateLost"]}
    text = "FirstMoment is not available: Lion is not known: describe it, by taiyi_fx.describe_opt"
    with pytest.raises(taiyi_fx.ConfigError, match=text):
        taiyi_fx.instrument(model, cfg, optimizer=optimizer)
    taiyi_fx.describe_optimizer(
        Lion,
        first_moment="exp_avg",
        step=lambda of: of.group["lr"] * (0.9 * of.state["exp_avg"] + 0.1 * of.gradient).sign(),
    )
    with pytest.raises(taiyi_fx.ConfigError, match="the state of Lion tells no second moment"):
        taiyi_fx.instrument(model, {"Linear": ["SecondMoment"]}, optimizer=optimizer)
    watched = taiyi_fx.instrument(model, cfg, optimizer=optimizer)
    for step in range(3):
        backward(watched, torch.bfloat16)
        watched.monitor.track(step)
        before = model[0].weight.detach().clone()
        optimizer.step()
    found = last(watched)
    m = optimizer.state[model[2].bias]
    assert set(m) == {"exp_avg"}
    assert found["0", "EffectiveStep.weight"] == pytest.approx(1e-3, rel=1e-5)
    stays = (model[0].weight == before).double().mean().item()
    assert found["0", "UpdateLost.weight"] == pytest.approx(stays, abs=1e-9)


def test_an_optimizer_that_lacks_the_state_is_named_before_training():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(taiyi_fx.ConfigError, match="the state of SGD tells no second moment"):
        taiyi_fx.instrument(model, {"Linear": ["SecondMoment"]}, optimizer=optimizer)


def test_sgd_keeps_a_first_moment_from_when_its_momentum_is_above_zero():
    """A warm-up may raise it: until then the reason is told at `track`."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, {"0": ["FirstMoment"]}, optimizer=optimizer)
    with pytest.warns(taiyi_fx.MonitorWarning, match="SGD keeps no first moment where its mom"):
        watched.monitor.track(0)
    assert "momentum is 0" in watched.monitor.explain("0", "FirstMoment.weight")
    optimizer.param_groups[0]["momentum"] = 0.9
    backward(watched)
    optimizer.step()
    watched.monitor.track(1)
    assert list(watched.monitor.get_output()["0"]["FirstMoment.weight"]) == [1]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (lambda model: [], "no optimizer is known"),
        (lambda model: [torch.optim.SGD(model[2].parameters())], "no parameter of the optimizer"),
        (lambda model: [torch.optim.SGD(model[0].parameters())], "no gradient reached it"),
        (lambda model: [torch.optim.LBFGS(model.parameters())], "LBFGS is not known: describe it"),
    ],
)
def test_what_is_not_known_is_said(told, why):
    model = net()
    watched = taiyi_fx.instrument(model, {"0": ["EffectiveStep"]})
    watched.monitor.watch_optimizer(*told(model))
    with pytest.warns(taiyi_fx.MonitorWarning, match=why):
        watched.monitor.track(0)
    assert why in watched.monitor.explain("0", "EffectiveStep.weight")


def test_no_warning_is_given_before_the_first_step():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    watched = taiyi_fx.instrument(model, {"Linear": ALL}, optimizer=optimizer)
    watched.monitor.track(0)  # warnings are errors here
    assert last(watched) == {}
    assert "has not updated it yet" in watched.monitor.explain("0", "EffectiveStep.weight")


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adafactor])
def test_training_has_the_same_bits(kind):
    def trained(watch):
        model = net(torch.bfloat16)
        optimizer = kind(model.parameters(), lr=1e-2)
        run = model
        if watch:
            cfg = {"Linear": [name for name in ALL if name != "FirstMoment"]}
            run = taiyi_fx.instrument(model, cfg, optimizer=optimizer)
        torch.manual_seed(1)
        for step in range(5):
            backward(run, torch.bfloat16)
            if watch:
                run.monitor.track(step)
            optimizer.step()
        states = [x for s in optimizer.state.values() for x in s.values() if torch.is_tensor(x)]
        return [*model.parameters(), *states]

    for plain, watched in zip(trained(False), trained(True), strict=True):
        assert torch.equal(plain, watched)


def test_nothing_of_the_state_is_kept_alive():
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    watched = taiyi_fx.instrument(model, {"Linear": ALL}, optimizer=optimizer)
    backward(watched)
    optimizer.step()
    watched.monitor.track(0)
    _ = watched.monitor.records
    kept = [weakref.ref(s["exp_avg"]) for s in optimizer.state.values()]
    optimizer.state.clear()
    gc.collect()
    assert all(ref() is None for ref in kept)
