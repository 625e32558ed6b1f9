"""Samples that are noised by the share of one step."""

import pytest

from taiyi_fx.findings.facts.source.diffusion import uncumulated_noise
from tests.findings.facts.source.reading import found_in

CODE = """
alphas = 1 - torch.linspace(1e-4, 0.02, 100)
products = {product}

def noised(x0, t, noise):
    a = {share}
    {sum}
"""
SUM = "return a.sqrt() * x0 + (1 - a).sqrt() * noise"


def texts(share="alphas[t][:, None]", code=SUM, product="torch.cumprod(alphas, 0)"):
    made = CODE.format(share=share, sum=code, product=product)
    return [text for _, text in found_in(made, uncumulated_noise)]


@pytest.mark.parametrize("product", ["torch.cumprod(alphas, 0)", "alphas.cumprod(dim=0)"])
@pytest.mark.parametrize("share", ["alphas[t][:, None]", "alphas.gather(0, t).view(-1, 1)"])
def test_a_share_that_is_multiplied_up_elsewhere_is_found(share, product):
    assert texts(share, product=product) == [SUM.removeprefix("return ")]


@pytest.mark.parametrize(
    "code",
    [
        "return torch.sqrt(1 - a) * noise + torch.sqrt(a) * x0",
        "return a ** 0.5 * x0 + (1 - a) ** 0.5 * noise",
        "return x0 * alphas[t].sqrt() + noise * (1.0 - alphas[t]).sqrt()",
    ],
)
def test_it_may_be_written_in_other_ways(code):
    assert texts(code=code) == [code.removeprefix("return ")]


@pytest.mark.parametrize(
    ("share", "code", "product"),
    [
        ("products[t]", SUM, "torch.cumprod(alphas, 0)"),
        ("alphas[t]", SUM, "alphas"),
        ("alphas[t]", "x0 = a.sqrt() * x0 + (1 - a).sqrt() * noise", "alphas.cumprod(0)"),
        ("alphas[t]", "return a.sqrt() * x0 + a.sqrt() * noise", "alphas.cumprod(0)"),
        ("alphas[t]", "return (x0 - a.sqrt() * noise) / a.sqrt()", "alphas.cumprod(0)"),
        ("alphas[t]", "return a * x0 + (1 - a) * noise", "alphas.cumprod(0)"),
    ],
    ids=["product", "no product", "single step", "no rest", "denoised", "no roots"],
)
def test_others_are_none(share, code, product):
    assert texts(share, code, product) == []
