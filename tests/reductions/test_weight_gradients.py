"""Each rule's shares add up to autograd's gradient of the weight."""

import contextlib

import pytest
import torch
from torch import nn

from taiyi_fx.passes.probes.compiling import for_compiled_code
from taiyi_fx.quantities.layer_rules import weight_gradient_of

LAYERS = {
    "linear": (nn.Linear(3, 4), (5, 3)),
    "linear with positions": (nn.Linear(3, 4), (5, 6, 3)),
    "convolution": (nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), (3, 4, 7, 7)),
    "transpose": (nn.ConvTranspose1d(2, 3, 3, stride=2), (4, 2, 5)),
    "group norm": (nn.GroupNorm(2, 4), (3, 4, 5)),
    "layer norm": (nn.LayerNorm(4), (3, 5, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("scale", [1.0, 1e-22])
def test_the_sum_of_all_shares_is_the_gradient(name, scale):
    layer, shape = LAYERS[name]
    rule = weight_gradient_of(layer)
    assert not isinstance(rule, str)
    x = torch.randn(shape)
    y = layer(x)
    g = torch.randn_like(y)
    (expected,) = torch.autograd.grad(y, layer.weight, g)
    shares = rule.shares(x, g * scale, with_total=True)
    found = shares.total.double() * shares.unit
    assert found.norm().item() == pytest.approx(scale * expected.norm().item(), rel=1e-4)
    singles = [torch.autograd.grad(layer(one), layer.weight, part)[0].norm().item() * scale
               for one, part in zip(x.split(1), g.split(1), strict=True)]  # fmt: skip
    assert shares.square_norms.sqrt().tolist() == pytest.approx(singles, rel=1e-4)


@pytest.mark.parametrize("left", [1e-1, 1e-3, 1e-4])
@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("name", ["linear", "convolution", "embedding"])
def test_shares_keep_their_digits_where_positions_cancel(name, left, is_compiled):
    layer = {"linear": nn.Linear(6, 3), "convolution": nn.Conv1d(6, 3, 1), "embedding": nn.Embedding(5, 3)}[name]  # fmt: skip
    rule = weight_gradient_of(layer)
    assert not isinstance(rule, str)
    g = torch.randn(4, 1, 3).repeat(1, 2, 1)
    if name == "embedding":
        x = torch.full((4, 2), 2)
        g[:, 1] *= -(1 + left)
        each = g.double().sum(1)
    else:
        x = torch.randn(4, 1, 6)
        x = torch.cat([x, -x * (1 + left)], 1)
        each = g.double().mT @ x.double()
    if name == "convolution":
        x, g = x.mT, g.mT
    truth = each.flatten(1).norm(dim=1)
    marked = for_compiled_code() if is_compiled else contextlib.nullcontext()
    with marked:
        found = rule.shares(x, g, with_total=False)
    assert torch.allclose(found.square_norms.sqrt(), truth, rtol=1e-4)
