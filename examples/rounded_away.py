"""A fine-tuning in bfloat16 stops learning, and the finding says why: its steps are rounded away.

The same model learns with the same learning rate where parameters are float32 and bfloat16 is what
it computes in.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

import taiyi_fx
from taiyi_fx import Finding

STEPS, RATE = 400, 3e-6


def main(steps: int = STEPS) -> dict[str, list[Finding]]:
    """Trains both, and returns what was found in each."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)  # findings are printed below
    found: dict[str, list[Finding]] = {}
    for name, dtype in (("in bfloat16", torch.bfloat16), ("under autocast", torch.float32)):
        losses, monitor = trained(dtype, steps)
        found[name] = [finding for finding in monitor.findings if finding.severity == "alert"]
        print(f"{name}: loss {mean(losses[:20]):.3f}, later {mean(losses[-20:]):.3f}")
        for finding in found[name]:
            print(f"  {finding.severity}: {finding.text}\n  {finding.advice}")
    return found


def trained(dtype: torch.dtype, steps: int) -> tuple[list[float], taiyi_fx.Monitor]:
    """Losses, and the monitor, of a model with parameters of a type that imitates another."""
    torch.manual_seed(0)
    teacher = perceptron(64)
    model = perceptron(256).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    probed = taiyi_fx.instrument(model, optimizer=optimizer)  # no configuration: a preset
    losses = []
    for step in range(steps):
        x = torch.randn(64, 32)
        loss = distance(probed, teacher, x)
        probed.monitor.log("loss", loss)
        loss.backward()
        probed.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, probed.monitor


def perceptron(width: int) -> nn.Sequential:
    """Three linear layers."""
    inner = nn.Linear(width, width)
    return nn.Sequential(nn.Linear(32, width), nn.GELU(), inner, nn.GELU(), nn.Linear(width, 8))


def distance(model: nn.Module, teacher: nn.Module, x: Tensor) -> Tensor:
    """The mean squared distance of what both return, computed in bfloat16 by the model."""
    with torch.no_grad():
        y = 5 * teacher(x)
    with torch.autocast("cpu", torch.bfloat16):
        return nn.functional.mse_loss(model(x.to(next(model.parameters()).dtype)).float(), y)


def mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


if __name__ == "__main__":
    main()
