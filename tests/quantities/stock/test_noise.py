"""Gradients sample by sample: every layer and layout against autograd on each sample alone."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx

IMAGES = (5, 4, 9, 9)
CASES = {
    "rows": (nn.Linear(5, 3), (6, 5)),
    "short sequences": (nn.Linear(5, 3), (6, 2, 5)),
    "long sequences": (nn.Linear(5, 3), (6, 40, 5)),
    "grids": (nn.Linear(5, 3), (6, 2, 3, 5)),
    "padded": (nn.Conv2d(4, 6, 3, padding=1), IMAGES),
    "strided and dilated groups": (
        nn.Conv2d(4, 6, (3, 2), stride=2, dilation=2, groups=2, padding=(2, 1)), IMAGES,
    ),
    "circular": (nn.Conv1d(4, 6, 3, padding="same", padding_mode="circular"), (5, 4, 9)),
    "reflected": (nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), IMAGES),
    "volumes": (nn.Conv3d(2, 3, 2), (3, 2, 4, 4, 4)),
    "transposed": (
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (5, 4, 5, 5),
    ),
    "transposed and dilated": (nn.ConvTranspose1d(4, 2, 4, stride=3, dilation=2), (5, 4, 5)),
    "words": (nn.Embedding(7, 3, padding_idx=1), (6, 4)),
    "single words": (nn.Embedding(7, 3), (6,)),
    "layer norm": (nn.LayerNorm(5), (6, 4, 5)),
    "layer norm of rows": (nn.LayerNorm(5), (6, 5)),
    "layer norm over two axes": (nn.LayerNorm((4, 5)), (6, 4, 5)),
    "RMS norm": (nn.RMSNorm(5), (6, 4, 5)),
    "group norm": (nn.GroupNorm(2, 4), (5, 4, 3, 3)),
    "instance norm": (nn.InstanceNorm2d(4, affine=True), (5, 4, 3, 3)),
}  # fmt: skip


def case(name):
    layer, shape = CASES[name]
    layer = copy.deepcopy(layer)
    if layer.weight.ndim == 1:
        nn.init.normal_(layer.weight)
    is_embedding = isinstance(layer, nn.Embedding)
    return layer, torch.randint(7, shape) if is_embedding else torch.randn(shape)


def norms_by_autograd(layer, x, v):
    """Of the losses <y_i, v_i>, each alone, in float64."""
    layer, found = copy.deepcopy(layer).double(), []
    for x_i, v_i in zip(x, v, strict=True):
        layer.zero_grad()
        x_i = x_i.double() if x_i.is_floating_point() else x_i
        (layer(x_i.unsqueeze(0)) * v_i.double()).sum().backward()
        found.append(layer.weight.grad.norm().item())
    return np.array(found)


COMPLEX = ["rows", "short sequences", "long sequences", "padded", "strided and dilated groups", "circular", "volumes", "transposed", "transposed and dilated"]  # fmt: skip


def noise_by_definition(gradients):
    """B_simple, its numerator and denominator, of each sample's gradient (arXiv 1812.06162, A.1)."""
    n = len(gradients)
    of_batch = np.square(np.abs(gradients.mean(0))).sum()
    of_one = np.square(np.abs(gradients)).sum(1).mean()
    square_norm = (n * of_batch - of_one) / (n - 1)
    trace = (of_one - of_batch) / (1 - 1 / n)
    return [trace / square_norm, trace, square_norm]


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", COMPLEX)
def test_of_complex_weights_they_are_those_of_autograd_in_complex128(name, dtype):
    layer, x = case(name)
    layer = layer.to(dtype)
    nn.init.normal_(layer.weight)
    x = torch.randn(x.shape, dtype=dtype)
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": ["PerSampleGradNorm", "GradientNoiseScale"]})  # fmt: skip
    for some in x.split(2):  # statistics of micro-batches merge
        (model(some).abs().pow(3).sum() / len(x)).backward()
    model.monitor.track(0)
    found = {k: v[0] for k, v in model.monitor.get_output()["0"].items()}
    reference, gradients = copy.deepcopy(layer).to(torch.complex128), []
    for one in x.to(torch.complex128).split(1):
        reference.zero_grad()
        reference(one).abs().pow(3).sum().backward()
        gradients.append(reference.weight.grad.flatten().numpy().copy())
    gradients = np.stack(gradients)
    norms = np.linalg.norm(gradients, axis=1)
    np.testing.assert_allclose(found["PerSampleGradNorm"], norms, rtol=1e-5)
    noise = [found[f"GradientNoiseScale{part}"] for part in ("", ".trace", ".square_norm")]
    np.testing.assert_allclose(noise, noise_by_definition(gradients), rtol=1e-4)


ASKED = {"0": ["PerSampleGradNorm", ["PerSampleGradNorm", "every(1)", {"reduce": "mean"}], "GradientNoiseScale"]}  # fmt: skip


def run(layer, x, v, *, compiled=False, batches=1, scale=1.0):
    model = taiyi_fx.instrument(nn.Sequential(layer), ASKED)
    call = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
    for x_i, v_i in zip(x.chunk(batches), v.chunk(batches), strict=True):
        ((call(x_i) * v_i).sum() / len(x) * scale).backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        model.monitor.track(0, grad_scale=None if scale == 1.0 else scale)
    return {k: v[0] for k, v in model.monitor.get_output()["0"].items()}


@pytest.mark.parametrize("name", CASES)
def test_norms_and_noise_are_those_of_each_sample_alone(name):
    layer, x = case(name)
    v = torch.randn(layer(x).shape)
    norms = norms_by_autograd(layer, x, v)
    found = run(layer, x, v)
    assert np.allclose(found["PerSampleGradNorm"], norms, rtol=1e-5)
    assert found["PerSampleGradNorm(reduce='mean')"] == pytest.approx(norms.mean(), rel=1e-5)
    n = len(x)
    big, small = layer.weight.grad.double().norm().item() ** 2, (norms**2).mean()
    trace, signal = (small - big) / (1 - 1 / n), (n * big - small) / (n - 1)
    assert found["GradientNoiseScale.trace"] == pytest.approx(trace, rel=1e-4)
    assert found["GradientNoiseScale.square_norm"] == pytest.approx(
        signal, rel=1e-4, abs=1e-6 * big
    )
    assert found["GradientNoiseScale"] == pytest.approx(trace / signal, rel=1e-3)


@pytest.mark.parametrize("name", ["long sequences", "padded", "words", "layer norm", "transposed"])
def test_compiled_code_has_the_same_vector_and_statistics(name):
    layer, x = case(name)
    v = torch.randn(layer(x).shape)
    expected, found = run(copy.deepcopy(layer), x, v), run(layer, x, v, compiled=True)
    vectors = found.pop("PerSampleGradNorm"), expected.pop("PerSampleGradNorm")
    torch.testing.assert_close(*vectors, rtol=1e-4, atol=1e-6)
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", ["long sequences", "padded", "words"])
def test_micro_batches_and_a_loss_scale_change_nothing(name):
    layer, x = case(name)
    x = torch.cat([x, x])[: len(x) // 2 * 4 // 2]
    v = torch.randn(layer(x).shape)
    whole = run(copy.deepcopy(layer), x, v)
    split = run(layer, x, v, batches=2, scale=1024.0)
    assert torch.allclose(split.pop("PerSampleGradNorm"), whole.pop("PerSampleGradNorm"))
    assert split == pytest.approx(whole, rel=1e-4)


def test_the_models_own_noise_scale_is_that_of_all_its_layers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5, bias=False), nn.Tanh(), nn.Linear(5, 2, bias=False))
    twin, x, v = copy.deepcopy(model).double(), torch.randn(8, 4), torch.randn(8, 2)
    gradients = []
    for x_i, v_i in zip(x.double(), v.double(), strict=True):
        twin.zero_grad()
        (twin(x_i) * v_i).sum().backward()
        gradients.append(torch.cat([p.grad.reshape(-1) for p in twin.parameters()]))
    g = torch.stack(gradients)
    big, small = g.mean(0).norm().item() ** 2, g.square().sum(1).mean().item()
    trace, signal = (small - big) / (1 - 1 / 8), (8 * big - small) / 7
    probed = taiyi_fx.instrument(model, {nn.Linear: ["GradientNoiseScale"]})
    ((probed(x) * v).sum() / 8).backward()
    probed.monitor.track(0)
    found = probed.monitor.get_output()[""]
    assert found["GradientNoiseScale.trace"][0] == pytest.approx(trace, rel=1e-5)
    assert found["GradientNoiseScale.square_norm"][0] == pytest.approx(signal, rel=1e-4)


def test_what_has_no_gradient_by_sample_is_said_at_the_door():
    class Own(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    model = nn.Sequential(nn.ReLU(), Own(2, 2), nn.Embedding(3, 2, scale_grad_by_freq=True))
    with pytest.raises(taiyi_fx.ConfigError) as error:
        taiyi_fx.instrument(model, {str(i): ["PerSampleGradNorm"] for i in range(3)})
    text = str(error.value)
    assert "'0' (ReLU) has no weight" in text
    assert "'1' (Own) is not a layer whose gradient is known sample by sample" in text
    assert "'2' (Embedding) scales its gradient by the frequency of words" in text
    found = taiyi_fx.instrument(
        nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), {nn.Module: ["PerSampleGradNorm"]}
    )
    assert [s.module for s in found.monitor.subscriptions] == ["1"]


def test_an_input_that_is_changed_in_place_later_is_told_and_not_read_wrongly():
    class Changing(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.fc.weight.requires_grad_(False)

        def forward(self, x):
            h = x * 2
            y = self.fc(h)
            h.add_(1)
            return y + h

    model = taiyi_fx.instrument(Changing(), {"fc": ["PerSampleGradNorm"]})
    x = torch.randn(4, 3, requires_grad=True)
    model(x).sum().backward()
    model.fc.weight.requires_grad_(True)  # while it was frozen, autograd itself kept no input
    with pytest.warns(taiyi_fx.MonitorWarning, match="input was changed in place after the call"):
        model.monitor.track(0)


def test_each_call_of_a_shared_layer_has_its_own():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(self.fc(x).tanh())

    model = taiyi_fx.instrument(Twice(), {"fc": ["PerSampleGradNorm"]})
    model(torch.randn(4, 3)).sum().backward()
    model.monitor.track(0)
    output = model.monitor.get_output()
    assert set(output) == {"fc", "fc@1"}
    assert all(len(v["PerSampleGradNorm"][0]) == 4 for v in output.values())


def test_a_frozen_weight_has_no_gradients_and_no_part_in_the_models_noise():
    def noise(freeze):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
        model[0].weight.requires_grad_(not freeze)
        cfg = {"2": ["GradientNoiseScale"], **({"0": ["GradientNoiseScale"]} if freeze else {})}
        probed = taiyi_fx.instrument(model, cfg)
        probed(torch.randn(6, 4)).square().mean().backward()
        return probed.monitor

    frozen, alone = noise(freeze=True), noise(freeze=False)
    with pytest.warns(taiyi_fx.MonitorWarning, match="GradientNoiseScale of '0': weight is frozen"):
        frozen.track(0)
    alone.track(0)
    assert "0" not in frozen.get_output()
    assert frozen.get_output()[""] == alone.get_output()[""]
    assert "its last value is that of step 0" in frozen.explain("", "GradientNoiseScale")
