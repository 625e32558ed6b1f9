"""What is computed of vectors is what was read, whatever a step does otherwise than the last."""

import copy

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.passes.probes.measured import Measured

NORMS = ["InputSndNorm", "OutputGradSndNorm", "WeightNorm", "WeightGradNorm"]


def deep(layers=5, width=8):
    torch.manual_seed(0)
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.Tanh())]
    return nn.Sequential(*parts)


def reference(model, *batches):
    """The four norms of all linear layers in float64, by hooks; batches are accumulated."""
    model = copy.deepcopy(model).double()
    model.zero_grad()
    parts, layers = {}, {n: m for n, m in model.named_modules() if type(m) is nn.Linear}

    def keep(name):
        def hook(module, args, output):
            parts.setdefault((name, "InputSndNorm"), []).append(args[0].detach())
            gradients = parts.setdefault((name, "OutputGradSndNorm"), [])
            output.register_hook(gradients.append)

        return hook

    for name, module in layers.items():
        module.register_forward_hook(keep(name))
    for x in batches:
        model(x.double()).square().sum().backward()
    found = {key: torch.cat(every).norm().item() for key, every in parts.items()}
    for name, module in layers.items():
        found[name, "WeightNorm"] = module.weight.norm().item()
        if module.weight.grad is not None:
            found[name, "WeightGradNorm"] = module.weight.grad.norm().item()
    return found


def recorded(monitor, step):
    return {(r.module, r.quantity): r.value for r in monitor.records if r.step == step}


def train(probed, step, *batches):
    probed.zero_grad()
    for x in batches:
        probed(x).square().sum().backward()
    probed.monitor.track(step)


def train_and_wait(probed, step, *batches):
    train(probed, step, *batches)
    probed.monitor.flush()


def check(probed, model, step, *batches):
    expected = reference(model, *batches)
    train(probed, step, *batches)
    assert recorded(probed.monitor, step) == pytest.approx(expected, rel=2e-6, abs=0)


@pytest.fixture
def warm():
    """A model whose next step, 4, is planned: builtins hold gradients since step 2."""
    model = deep()
    probed = taiyi_fx.instrument(model, {"Linear": NORMS})
    for step in range(4):
        train(probed, step, torch.randn(5, 8))
    return probed, model


def test_a_step_like_the_last_folds_nothing_into_slots(warm, monkeypatch):
    probed, model = warm

    def refuse(self):
        raise AssertionError("a slot was looked at")

    monkeypatch.setattr(Measured, "fold", refuse)
    for step in (4, 5):
        check(probed, model, step, torch.randn(5, 8))
    assert not probed.monitor.missing


def test_several_backwards_of_a_step_are_one(warm):
    probed, model = warm
    for step, count in enumerate((1, 2, 1, 3, 1, 1), start=4):
        check(probed, model, step, *torch.randn(count, 5, 8))


def test_batches_of_other_sizes(warm):
    probed, model = warm
    for step, rows in enumerate((5, 3, 3, 3, 5, 1000, 5), start=4):
        check(probed, model, step, torch.randn(rows, 8))


def test_what_leaves_the_range_of_float32(warm):
    probed, model = warm
    for step, scale in enumerate((1e-25, 1e25, 0.0, 1.0), start=4):
        x = torch.randn(5, 8)
        with torch.no_grad():
            model[0].weight.copy_(torch.eye(8) * scale)
        check(probed, model, step, x)


def test_a_weight_that_is_another_one(warm):
    probed, model = warm
    model[2].weight = nn.Parameter(torch.randn(8, 8))
    check(probed, model, 4, torch.randn(5, 8))
    model[2].weight.data = torch.randn(8, 8)
    check(probed, model, 5, torch.randn(5, 8))
    model[2] = nn.Linear(8, 8)
    probed(torch.randn(5, 8)).sum().backward()


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_frozen_weight_is_told_and_the_others_are_read(warm):
    probed, model = warm
    model[2].weight.requires_grad_(False)
    for step in range(4, 9):
        check(probed, model, step, torch.randn(5, 8))
    assert "frozen" in probed.monitor.missing["2", "WeightGradNorm"]
    assert list(probed.monitor.missing) == [("2", "WeightGradNorm")]
    model[2].weight.requires_grad_(True)
    for step in range(9, 13):
        check(probed, model, step, torch.randn(5, 8))
    assert not probed.monitor.missing


class Sometimes(nn.Module):
    """One of two layers at each call."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.left_out = -1

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = x if i == self.left_out else torch.tanh(layer(x))
        return x


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_layers_that_are_not_called_are_told_and_the_others_are_read():
    model = Sometimes()
    probed = taiyi_fx.instrument(model, {"Linear": NORMS})
    for step, model.left_out in enumerate([-1, -1, -1, 2, 2, 1, -1, 0, -1, -1, -1]):
        x = torch.randn(5, 8)
        expected = reference(model, x)
        train(probed, step, x)
        assert recorded(probed.monitor, step) == pytest.approx(expected, rel=2e-6, abs=0)
        left_out = {module for module, _ in probed.monitor.missing}
        assert left_out == ({f"layers.{model.left_out}"} if model.left_out >= 0 else set())


def test_each_set_of_due_readings_has_its_plan():
    model = deep()
    probed = taiyi_fx.instrument(
        model, {"Linear": [["InputSndNorm", "every(2)"], ["OutputGradSndNorm", "every(3)"]]}
    )
    for step in range(14):
        x = torch.randn(5, 8)
        expected = reference(model, x)
        train(probed, step, x)
        due = {"InputSndNorm"} if step % 2 == 0 else set()
        due |= {"OutputGradSndNorm"} if step % 3 == 0 else set()
        expected = {key: value for key, value in expected.items() if key[1] in due}
        assert recorded(probed.monitor, step) == pytest.approx(expected, rel=2e-6, abs=0)


def test_a_loss_scale_that_changes(warm):
    probed, model = warm
    for step, scale in enumerate((1.0, 8.0, 2.0), start=4):
        x = torch.randn(5, 8)
        expected = reference(model, x)
        probed.zero_grad()
        (probed(x).square().sum() * scale).backward()
        probed.monitor.track(step, grad_scale=scale)
        assert recorded(probed.monitor, step) == pytest.approx(expected, rel=2e-6, abs=0)


def test_a_value_does_not_depend_on_what_else_is_asked():
    x, found = torch.randn(6, 5, 8), []
    for more in ([], ["OutputAbsMax", "Histogram", "OutputGradCorrelation", "OutputRMS"]):
        probed = taiyi_fx.instrument(deep(), {"Linear": [*NORMS, *more]})
        for step, batch in enumerate(x):
            train(probed, step, batch)
        found.append({q: probed.monitor.get_output()["2"][q] for q in NORMS})
    for q in NORMS:
        assert found[0][q] == pytest.approx(found[1][q], rel=1e-6)


def test_a_quantity_that_fails_at_a_later_step_is_told_by_name(warm):
    @taiyi_fx.quantity("touchy", batched=True, norm=taiyi_fx.output.norm)
    def touchy(norm):
        if (norm > 1e6).any():
            raise ValueError("too large")
        return norm

    probed = taiyi_fx.instrument(deep(3), {"Linear": ["touchy", "OutputRMS"]})
    for step in range(5):
        train(probed, step, torch.randn(5, 8))
    with torch.no_grad():
        probed[2].bias.fill_(1e7)
    with pytest.warns(taiyi_fx.MonitorWarning, match="touchy of '2': ValueError: too large"):
        train(probed, 5, torch.randn(5, 8))
    values = recorded(probed.monitor, 5)
    assert set(values) == {(n, "OutputRMS") for n in "024"} | {(n, "touchy") for n in "04"}


def test_a_quantity_that_fails_raises_if_strict():
    @taiyi_fx.quantity("brittle", batched=True, norm=taiyi_fx.output.norm)
    def brittle(norm):
        if (norm > 1e6).any():
            raise ValueError("too large")
        return norm

    probed = taiyi_fx.instrument(deep(3), {"Linear": ["brittle"]}, strict=True)
    for step in range(5):
        train(probed, step, torch.randn(5, 8))
    with torch.no_grad():
        probed[2].bias.fill_(1e7)
    with pytest.raises(ValueError, match="too large"):
        train(probed, 5, torch.randn(5, 8))
    with torch.no_grad():
        probed[2].bias.fill_(0)
    train(probed, 6, torch.randn(5, 8))
    assert len(recorded(probed.monitor, 6)) == 3


def test_a_quantity_that_is_its_reading_has_the_values_of_its_function():
    @taiyi_fx.quantity("computed", batched=True, norm=taiyi_fx.output_grad.norm)
    def computed(norm):
        return norm.clone()

    probed = taiyi_fx.instrument(deep(), {"Linear": ["OutputGradSndNorm", "computed"]})
    for step, scale in enumerate([None, None, None, None, 2.0, None]):
        probed.zero_grad()
        probed(torch.randn(5, 8)).square().sum().backward()
        probed.monitor.track(step, grad_scale=scale)
        found = recorded(probed.monitor, step)
        by_name = {q: [v for (_, of), v in found.items() if of == q] for _, q in found}
        assert by_name["OutputGradSndNorm"] == by_name["computed"]
        assert len(by_name["computed"]) == 5


CONDITIONS = ["InputCovCondition", "InputCovMaxEig", "OutputGradCovMaxEig"]


def spectra(model, *batches, scale=1.0):
    """The same of all linear layers in float64, of the rows of all batches."""
    model = copy.deepcopy(model).double()
    rows, layers = {}, [(n, m) for n, m in model.named_modules() if type(m) is nn.Linear]
    for name, module in layers:
        inputs, gradients = rows.setdefault(name, ([], []))
        module.register_forward_hook(
            lambda m, args, out, inputs=inputs, gradients=gradients: (
                inputs.append(args[0].detach()),
                out.register_hook(gradients.append),
            )[0]
        )
    for x in batches:
        (model(x.double()).square().sum() * scale).backward()
    found = {}
    for name, (inputs, gradients) in rows.items():
        of_input = torch.linalg.eigvalsh(torch.cov(torch.cat(inputs).T))
        of_gradient = torch.linalg.eigvalsh(torch.cov(torch.cat(gradients).T))
        values = of_input[-1] / of_input[0], of_input[-1], of_gradient[-1]
        found.update({(name, q): v.item() for q, v in zip(CONDITIONS, values, strict=True)})
    return found


@pytest.fixture
def conditioned():
    """The same as `warm`, with condition numbers."""
    model = deep()
    probed = taiyi_fx.instrument(model, {"Linear": CONDITIONS})
    for step in range(4):
        train(probed, step, torch.randn(30, 8))
    return probed, model


@pytest.mark.parametrize("most", [0, 2**21], ids=["beside the training", "at once"])
def test_covariances_stay_together_up_to_their_eigenvalues(conditioned, most, monkeypatch):
    monkeypatch.setattr("taiyi_fx.step.work._QUICK", most)
    monkeypatch.setattr(Measured, "fold", None)
    probed, model = conditioned
    for step in (4, 5):
        x = torch.randn(30, 8)
        expected = spectra(model, x)
        train(probed, step, x)
        assert recorded(probed.monitor, step) == pytest.approx(expected, rel=1e-4)
    assert not probed.monitor.missing


def test_covariances_of_several_backwards_and_of_other_batches(conditioned):
    probed, model = conditioned
    every = [(30,), (30, 20), (12,), (12,), (30, 30, 30), (40,), (40,), (40,)]
    for step, sizes in enumerate(every, start=4):
        xs = [torch.randn(n, 8) for n in sizes]
        expected = spectra(model, *xs)
        train(probed, step, *xs)
        assert recorded(probed.monitor, step) == pytest.approx(expected, rel=1e-4)


def test_a_loss_scale_is_taken_out_of_covariances(conditioned):
    probed, model = conditioned
    for step, scale in enumerate((1.0, 8.0), start=4):
        x = torch.randn(30, 8)
        probed.zero_grad()
        (probed(x).square().sum() * scale).backward()
        probed.monitor.track(step, grad_scale=scale)
        assert recorded(probed.monitor, step) == pytest.approx(spectra(model, x), rel=1e-4)


def test_one_decomposition_serves_all_quantities_of_a_tensor(monkeypatch):
    probed = taiyi_fx.instrument(deep(), {"Linear": [*CONDITIONS[:2], "InputCovCondition50"]})
    for step in range(4):
        train(probed, step, torch.randn(30, 8))
    probed.monitor.flush()
    shapes, eigvalsh = [], torch.linalg.eigvalsh

    def counted(matrix):
        shapes.append(tuple(matrix.shape))
        return eigvalsh(matrix)

    monkeypatch.setattr(torch.linalg, "eigvalsh", counted)
    train(probed, 4, torch.randn(30, 8))
    assert len(recorded(probed.monitor, 4)) == 15
    assert shapes == [(5, 8, 8)]


@pytest.mark.parametrize("most", [0, 2**21], ids=["beside the training", "at once"])
def test_a_costly_quantity_that_fails_for_one_call_is_told_and_has_the_others(most, monkeypatch):
    monkeypatch.setattr("taiyi_fx.step.work._QUICK", most)

    @taiyi_fx.quantity("picky", batched=True, spectrum=taiyi_fx.output.spectrum)
    def picky(spectrum):
        if (spectrum.largest > 1e6).any():
            raise ValueError("too large")
        return spectrum.largest

    probed = taiyi_fx.instrument(deep(3), {"Linear": ["picky"]})
    for step in range(5):
        train(probed, step, torch.randn(30, 8))
    with torch.no_grad():
        probed[2].weight.mul_(1e6)
    with pytest.warns(taiyi_fx.MonitorWarning, match="picky of '2': ValueError: too large"):
        train_and_wait(probed, 5, torch.randn(30, 8))
    assert set(recorded(probed.monitor, 5)) == {(n, "picky") for n in "04"}
