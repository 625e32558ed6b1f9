"""Each rule's shares add up to autograd's gradient of the weight."""

import pytest
import torch
from torch import nn

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
