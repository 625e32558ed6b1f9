"""Layers that models bring along are known by their code, and have the gradients of samples."""

import copy
import importlib

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.quantities.known_layers import known_layer
from taiyi_fx.quantities.layer_rules import weight_gradient_of
from taiyi_fx.reductions.weight_gradients import Dense, Normalization
from tests.quantities.of_transformers import transformers


class OfMeta(nn.Module):
    """As the code that Meta released with LLaMA has it."""

    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


class Doubled(OfMeta):
    def _norm(self, x):
        return 2 * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class Documented(OfMeta):
    def forward(self, x):
        """Documentation changes nothing."""
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


class Offset(OfMeta):
    def forward(self, x):
        output = self._norm(x.float()).type_as(x)
        return output + self.weight


OF_TRANSFORMERS = [
    "llama.LlamaRMSNorm", "mistral.MistralRMSNorm", "qwen3.Qwen3RMSNorm", "mamba.MambaRMSNorm",
    "olmo2.Olmo2RMSNorm", "t5.T5LayerNorm", "gemma.GemmaRMSNorm", "gemma3.Gemma3RMSNorm",
    "deepseek_v3.DeepseekV3RMSNorm", "mixtral.MixtralRMSNorm",
]  # fmt: skip


def of_transformers(name):
    transformers()
    home, kind = name.split(".")
    module = importlib.import_module(f"transformers.models.{home}.modeling_{home}")
    return getattr(module, kind)


class OfGpt2(nn.Module):
    """A linear layer as GPT-2 has it, by the code of transformers."""

    def __init__(self, nx, nf=16):
        super().__init__()
        self.nf = nf
        self.weight, self.bias = nn.Parameter(torch.empty(nx, nf)), nn.Parameter(torch.zeros(nf))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x):
        size_out = x.size()[:-1] + (self.nf,)  # noqa: RUF005 - as it is there
        x = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        x = x.view(size_out)
        return x  # noqa: RET504


def test_the_linear_layer_of_gpt2_is_known_there_too():
    transformers()
    kind = importlib.import_module("transformers.pytorch_utils").Conv1D
    assert known_layer(kind(3, 4)) == known_layer(OfGpt2(4)) == Dense(transposed=True)


def test_a_transposed_weight_has_the_gradient_that_its_layer_makes():
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(
        nn.Sequential(OfGpt2(4, 8), nn.Tanh(), OfGpt2(8, 3)),
        {"?": ["WeightGradAgreement", "WeightGradExcess"]},
    )
    for step in range(3):
        watched(torch.randn(5, 7, 4)).square().mean().backward()
        watched.monitor.track(step)  # and nothing clears the gradients
    for of in (watched.monitor.get_output()[name] for name in ("0", "2")):
        assert of["WeightGradAgreement"][0] == pytest.approx(1, rel=1e-5)
        assert of["WeightGradExcess"][0] == pytest.approx(1, rel=1e-4)
        assert of["WeightGradExcess"][2] > 2


def explicit(layer, x, loss):
    """The norm of each sample's own gradient of the weight, by a backward of that sample alone."""
    norms = []
    for one in x:
        layer.zero_grad()
        loss(layer(one.unsqueeze(0))).backward()
        norms.append(layer.weight.grad.double().norm().item())
    return norms


@pytest.mark.parametrize(
    "make",
    [lambda n=n: of_transformers(n) for n in OF_TRANSFORMERS]
    + [lambda: OfMeta, lambda: Documented, lambda: nn.RMSNorm, lambda: nn.LayerNorm]
    + [lambda: OfGpt2],
    ids=[*OF_TRANSFORMERS, "OfMeta", "Documented", "RMSNorm", "LayerNorm", "OfGpt2"],
)
def test_norms_of_samples_are_those_of_a_backward_each(make):
    torch.manual_seed(0)
    layer = make()(16).double()
    nn.init.normal_(layer.weight)
    x = 3 * torch.randn(5, 7, 16, dtype=torch.float64)
    target = torch.randn(7, 16, dtype=torch.float64)

    def loss(y):
        return (y - target).square().sum((1, 2)).mean()

    expected = explicit(copy.deepcopy(layer), x, loss)
    watched = taiyi_fx.instrument(nn.Sequential(layer), {"0": ["PerSampleGradNorm"]})
    loss(watched(x)).backward()
    watched.monitor.track(0)
    found = watched.monitor.get_output()["0"]["PerSampleGradNorm"][0]
    assert found.tolist() == pytest.approx(expected, rel=1e-5)  # some of them compute in float32


@pytest.mark.parametrize("kind", [Doubled, Offset])
def test_other_code_under_a_known_name_is_not_known(kind):
    assert known_layer(kind(4)) is None
    assert "is not a layer whose gradient is known" in str(weight_gradient_of(kind(4)))


def test_the_rule_has_the_shape_and_the_epsilon_of_the_module():
    assert known_layer(OfMeta(4, eps=0.5)) == Normalization("rms", 0.5, (4,))


def test_most_norms_of_transformers_are_known():
    kinds = [of_transformers(name) for name in OF_TRANSFORMERS]
    assert all(known_layer(kind(4)) is not None for kind in kinds)
