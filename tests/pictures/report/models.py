"""A model that is quick to train, and a run of one with a fault."""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.monitor import Monitor


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def wild(path: Path, steps: int = 20) -> tuple[Path, Monitor]:
    """A run in which module "4" is initialised 150 times too large, and its monitor."""
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(16, 16), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(16, 4))
    with torch.no_grad():
        model[4].weight.mul_(150)
    cfg = {"Linear": ["WeightNorm", "OutputRMS"], "ReLU": ["DeadNeuronRatio"]}
    instrumented = taiyi_fx.instrument(model, cfg, run=path)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        x = torch.randn(32, 16)
        loss = F.cross_entropy(instrumented(x), x[:, :4].argmax(1))
        loss.backward()
        instrumented.monitor.log("loss", loss)
        instrumented.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    instrumented.monitor.close()
    return path, instrumented.monitor
