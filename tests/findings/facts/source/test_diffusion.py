"""Noise by the share of one step, and uniform noise."""

import pytest

from taiyi_fx.findings.facts.source.diffusion import (
    products_of_betas,
    uncumulated_noise,
    uniform_noise,
)
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


@pytest.mark.parametrize(
    "code",
    [
        "noise = torch.rand_like(x)\ny = a.sqrt() * x + (1 - a).sqrt() * noise",
        "z = mu + std * torch.rand_like(std)",
        "eps = torch.rand_like(mu)\nz = mu + torch.exp(0.5 * logvar) * eps",
        "def f(x, noise):\n    return x + sigma * noise\nn = torch.rand_like(x)\ny = f(x, n)",
    ],
    ids=["diffusion", "deviation", "code", "handed on"],
)
def test_uniform_noise_that_a_deviation_multiplies_is_found(code):
    (text,) = [text for _, text in found_in(code, uniform_noise)]
    assert text.startswith("torch.rand_like(")
    assert found_in(code.replace("rand_like", "randn_like"), uniform_noise) == []


@pytest.mark.parametrize(
    "draw",
    [
        "torch.rand(x.shape, device=x.device)",
        "torch.rand(x.size())",
        "torch.rand(*x.shape)",
        "torch.rand(8, 3)",
        "torch.empty_like(x).uniform_()",
    ],
)
def test_other_draws_are_found_by_the_shape_of_something_or_by_name(draw):
    code = f"noise = {draw}\ny = x + sigma * noise"
    assert [text for _, text in found_in(code, uniform_noise)] == [draw]


@pytest.mark.parametrize(
    "code",
    [
        "std = 1 / math.sqrt(n)\nw = std * torch.rand(n, m)",
        "noise = torch.empty_like(x).uniform_(-1, 1)\ny = x + sigma * noise",
        "u = torch.rand(8, 3)\ny = x + sigma * u",
        "x = x + torch.rand_like(x) / 256",
        "eps = torch.rand_like(x)\ny = eps * real + (1 - eps) * fake",
        "u = torch.rand_like(x)\ng = -torch.log(-torch.log(u))",
        "mask = torch.rand_like(x) < 0.5",
        "def f(x, noise):\n    return x + noise\nn = torch.rand_like(x)\ny = f(x, n)",
    ],
    ids=[
        "weights",
        "around 0",
        "no noise by name",
        "dequantization",
        "between two",
        "Gumbel",
        "mask",
        "handed on, plain",
    ],
)
def test_uniform_numbers_of_other_kinds_are_none(code):
    assert found_in(code, uniform_noise) == []


@pytest.mark.parametrize(
    ("product", "is_found"),
    [
        ("torch.cumprod(betas, dim=0)", True),
        ("betas.cumprod(0)", True),
        ("torch.cumprod(1 - betas, 0)", False),
        ("torch.cumprod(alphas, 0)", False),
        ("torch.cumsum(betas, 0)", False),
    ],
)
def test_a_product_of_what_is_noise_is_found(product, is_found):
    code = f"alphas = 1 - betas\nproducts = {product}\n"
    assert [text for _, text in found_in(code, products_of_betas)] == [product] * is_found
    assert found_in(f"products = {product}\n", products_of_betas) == []
