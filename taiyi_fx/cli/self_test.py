"""A training step of a small probed model, beside the plain model and beside float64."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from taiyi_fx.instrument import instrument

_TOLERANCE = 1e-5


def self_test() -> list[str]:
    """A sentence for each problem found; leaves the random state as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        plain = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
        batch = torch.randn(8, 6)
    probed = instrument(copy.deepcopy(plain), {"0": ["InputMean", "WeightNorm", "OutputGradNorm"]})
    is_equal = all(map(torch.equal, _step(plain, batch), _step(probed, batch)))
    probed.monitor.track(0)
    problems = [] if is_equal else ["a probed model does not compute what the plain one does"]
    recorded = {r.quantity: float(r.value) for r in probed.monitor.records}
    for name, expected in _expected(plain, batch).items():
        found = recorded.get(name)
        if found is None or not abs(found - expected) <= _TOLERANCE * abs(expected):
            problems.append(f"{name} is {found}, but {expected} in float64")
    return problems


def _step(model: nn.Module, batch: Tensor) -> list[Tensor]:
    """The output of a step, and the gradients of its loss."""
    output = model(batch)
    output.square().mean().backward()
    return [output, *(p.grad for p in model.parameters() if p.grad is not None)]


def _expected(plain: nn.Module, batch: Tensor) -> dict[str, float]:
    model = copy.deepcopy(plain).double()
    first, *rest = model.children()
    hidden = first(batch.double())
    (gradient,) = torch.autograd.grad(nn.Sequential(*rest)(hidden).square().mean(), hidden)
    return {
        "InputMean": batch.double().mean().item(),
        "WeightNorm": model.get_parameter("0.weight").norm().item(),
        "OutputGradNorm": gradient.norm().item(),
    }
