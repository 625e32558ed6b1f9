"""Parameters of a wild size."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings import Attributes
from taiyi_fx.findings.rules.values.sizes import wild_parameters
from tests.findings.given import evidence, knowing


def of(name, size, output=0.5):
    return evidence({("fc", "OutputRMS"): output, ("fc", f"ParameterRMS.{name}"): size})


@pytest.mark.parametrize(
    ("name", "size"),
    [("weight", 8.0), ("bias", 30.0), ("weight_hh_l0", 6.0), ("weight", 1e-4)],
)
def test_elements_far_too_large_or_too_small_are_named_with_the_parameter(name, size):
    (found,) = wild_parameters(of(name, size))
    assert (found.module, found.severity) == ("fc", "alert")
    assert f"'fc'.{name} are {size:.3g} in size at step 0" in found.text


@pytest.mark.parametrize(
    "known",
    [
        of("weight", 0.02),
        of("bias", 1e-6),
        of("bias", 5.1),
        of("weight", 0.0),
        of("weight", np.linspace(0, 0.1, 40)),
        of("weight", np.geomspace(1e-5, 1e-2, 40)),
        of("weight", 8.0, output=8.5),
    ],
    ids=["usual", "a bias", "of a gate, as Mamba's", "zero", "from zero", "from nothing", "a gain"],
)
def test_usual_ones_and_those_that_grow_from_nothing_are_none(known):
    assert [*wild_parameters(known)] == []


def test_a_bias_is_no_gain_of_an_output_that_it_alone_makes():
    (found,) = wild_parameters(of("bias", 9.0, output=8.998))
    assert "'fc'.bias are 9 in size" in found.text


def test_a_gain_or_an_embedding_may_be_larger_but_not_wild():
    (found,) = wild_parameters(of("weight", 200.0, output=200.0))
    assert found.value == 200.0


def matrix(size, elements, name="weight", output=0.5):
    numbers = {("fc", f"ParameterRMS.{name}"): size, ("fc", "OutputRMS"): output}
    return evidence({**numbers, ("fc", f"ParameterNorm.{name}"): size * elements**0.5})


def test_a_matrix_is_wild_by_what_it_makes_of_its_input():
    (found,) = wild_parameters(matrix(3.0, 32 * 32))
    assert (found.module, found.kind) == ("fc", "wild_parameter")
    assert "about 17 times larger" in found.text


@pytest.mark.parametrize(
    "known",
    [
        matrix(2**0.5 / 32**0.5, 32 * 32),
        matrix(1.0, 50_000 * 768, output=1.0),
        matrix(1.0, 10**6, "bias"),
    ],
    ids=["usual", "an embedding", "a bias"],
)
def test_usual_matrices_embeddings_and_biases_are_none(known):
    assert [*wild_parameters(known)] == []


def test_a_bias_that_grows_far_beyond_others_is_a_warning():
    numbers = {(f"h.{i}", "ParameterRMS.bias"): 0.1 for i in range(4)}
    numbers["h.2", "ParameterRMS.bias"] = np.arange(40) / 2
    (found,) = wild_parameters(evidence(numbers))
    assert (found.module, found.severity, found.step) == ("h.2", "warning", 10)


def layers(size, gain, width=64, count=5, narrow=1):
    """Linear layers of one size of elements, each of which returns so many times its input."""
    names = [f"h.{i}.fc" for i in range(count)]
    numbers = {}
    for i, name in enumerate(names):
        own = 0.05 if i < narrow else size
        numbers |= {
            (name, "InputRMS"): 2.0,
            (name, "OutputRMS"): 2.0 * (0.5 if i < narrow else gain),
        }
        numbers |= {(name, "ParameterRMS.weight"): own, (name, "WeightNorm"): own * width}
    known = {name: Attributes("torch.Linear", {}, (width, width)) for name in names}
    return knowing(evidence(numbers), attributes=known)


def test_matrices_that_are_all_drawn_too_wide_are_told_together():
    (found,) = wild_parameters(layers(1.0, 8.0))
    assert (found.module, found.severity) == ("h", "warning")
    assert "'h.1.fc', 'h.2.fc', 'h.3.fc' and 1 more" in found.text
    assert "about 8 times larger" in found.text
    assert "torch.randn" in found.advice


@pytest.mark.parametrize(
    "known",
    [
        layers(1.0, 1.0),
        layers(0.18, 1.4),
        layers(1.5, 4.0, width=4),
        layers(1.0, 8.0, narrow=3),
    ],
    ids=["scaled within", "usual", "of few inputs", "of few layers"],
)
def test_matrices_that_are_scaled_within_of_few_inputs_or_few_are_none(known):
    assert [*wild_parameters(known)] == []


@pytest.mark.parametrize(("returned", "is_told"), [(1.0, False), (100.0, True)])
def test_a_large_weight_that_the_forward_scales_down_is_none(returned, is_told):
    """As of StyleGAN's mapping, which learns a hundredth as fast so."""
    numbers = {(name, "ParameterRMS.weight"): 0.1 for name in "abc"}
    numbers |= {(name, "ParameterNorm.weight"): 6.4 for name in "abc"}
    numbers |= {("b", "ParameterRMS.weight"): 100.0, ("b", "ParameterNorm.weight"): 6400.0}
    numbers |= {("b", "InputRMS"): 1.0, ("b", "OutputRMS"): returned}
    assert [one.module for one in wild_parameters(evidence(numbers))] == ["b"] * is_told


@pytest.mark.parametrize(
    ("kind", "is_told"), [("models.Equalized", False), ("torch.nn.modules.linear.Linear", True)]
)
def test_a_large_weight_of_a_class_of_ones_own_says_nothing_where_no_output_is_read(kind, is_told):
    """As its forward may scale it down."""
    numbers = {("fc", "ParameterRMS.weight"): 100.0, ("fc", "WeightNorm"): 6400.0}
    numbers |= {("other", "ParameterRMS.weight"): 0.1, ("other", "WeightNorm"): 64.0}
    known = knowing(evidence(numbers), attributes={"fc": Attributes(kind, {})})
    assert [one.module for one in wild_parameters(known)] == ["fc"] * is_told


class Pairs(nn.Module):
    """Logits of all pairs, with a temperature and a bias that begin as SigLIP's do, and larger."""

    def __init__(self, bias):
        super().__init__()
        self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)
        self.logit_scale = nn.Parameter(torch.tensor(10.0))
        self.logit_bias = nn.Parameter(torch.tensor(bias))

    def forward(self, x):
        left, right = F.normalize(self.left(x), dim=-1), F.normalize(self.right(x), dim=-1)
        return self.logit_scale * left @ right.T + self.logit_bias


@pytest.mark.parametrize(("bias", "is_told"), [(-10.0, False), (-5000.0, True)])
def test_a_single_number_may_be_large(bias, is_told):
    torch.manual_seed(0)
    model = Pairs(bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    signs = 2 * torch.eye(16) - 1
    for step in range(30):
        loss = -F.logsigmoid(signs * watched(torch.randn(16, 8))).sum() / 16
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    kinds = {one.kind for one in watched.monitor.findings}
    assert ("wild_parameter" in kinds) == is_told


def test_an_embedding_whose_padding_is_zero_is_no_large_matrix():
    """As torch draws it: the size of what it hands out is that of its entries, or less."""
    model = taiyi_fx.instrument(nn.Sequential(nn.Embedding(1500, 48, padding_idx=0), nn.Flatten()))
    ids = torch.zeros(8, 40, dtype=torch.long)
    ids[:, 0] = torch.randint(1, 1500, (8,))
    for step in range(9):
        model(ids).square().mean().backward()
        model.monitor.track(step)
    assert [one for one in model.monitor.findings if one.kind == "wild_parameter"] == []
