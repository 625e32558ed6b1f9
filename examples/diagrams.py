"""Pictures of five models after some steps of training: where the probes stand, what they read.

Two of them are ill on purpose. Writes resnet50, gpt, unet, moe and lstm as .svg and .png into a
folder, by default docs/images/diagrams.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx

sys.path.insert(0, str(Path(__file__).parent))
from diagram_models import GPT, LSTM, MoE, ResNet50, UNet

STEPS = 12
WORDS = 50

CONVOLUTIONS = {
    nn.Conv2d: ["OutputRMS", "OutputGradNorm"],
    nn.ReLU: [["DeadNeuronRatio", "every(4)"]],
    "fc": ["OutputRMS", "OutputGradNorm", "WeightNorm"],
}
WORDS_AND_LAYERS = {
    nn.Linear: ["OutputRMS", "OutputGradNorm"],
    nn.LayerNorm: ["OutputRMS"],
    nn.ReLU: ["DeadNeuronRatio"],
}


def trained(
    model: nn.Module, cfg: dict[Any, list[Any]], x: Tensor, y: Tensor, rate: float = 1e-3
) -> taiyi_fx.InstrumentedModule:
    """A model after some steps on one batch, with what was read of it."""
    probed = taiyi_fx.instrument(model, cfg)
    optimizer = torch.optim.Adam(probed.parameters(), lr=rate)
    for step in range(STEPS):
        F.cross_entropy(_rows(probed(x)), y.flatten()).backward()
        probed.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return probed


def _rows(scores: Tensor) -> Tensor:
    """Scores as rows of classes: of images, pixels or words."""
    return scores.movedim(1, -1).flatten(0, -2) if scores.dim() == 4 else scores.flatten(0, -2)


def resnet50() -> taiyi_fx.InstrumentedModule:
    """Healthy."""
    images = torch.randn(16, 3, 64, 64)
    return trained(ResNet50(), CONVOLUTIONS, images, torch.randint(10, (16,)), rate=1e-5)


def gpt() -> taiyi_fx.InstrumentedModule:
    """Ill: in three blocks more or less units are dead."""
    model = GPT(WORDS)
    with torch.no_grad():
        for block, dead in ((0, 80), (3, 20), (7, 100)):
            model.get_parameter(f"h.{block}.mlp.0.bias")[:dead].fill_(-20.0)
    words = torch.randint(WORDS, (8, 33))
    return trained(model, WORDS_AND_LAYERS, words[:, :-1], words[:, 1:])


def unet() -> taiyi_fx.InstrumentedModule:
    """Healthy."""
    cfg = {key: CONVOLUTIONS[key] for key in (nn.Conv2d, nn.ReLU)}
    images = torch.randn(4, 3, 64, 64)
    return trained(UNet(), cfg, images, (images.mean(1) > 0).long())


def moe() -> taiyi_fx.InstrumentedModule:
    """Ill: an expert's units are dead."""
    model = MoE(WORDS)
    with torch.no_grad():
        model.get_parameter("blocks.2.moe.experts.5.up.bias").fill_(-20.0)
    words = torch.randint(WORDS, (8, 17))
    return trained(model, WORDS_AND_LAYERS, words[:, :-1], words[:, 1:])


def lstm() -> taiyi_fx.InstrumentedModule:
    """Healthy."""
    cfg = {**WORDS_AND_LAYERS, nn.LSTM: ["OutputRMS", "OutputGradNorm"], nn.Tanh: ["OutputRMS"]}
    del cfg[nn.ReLU]
    return trained(LSTM(WORDS), cfg, torch.randint(WORDS, (16, 20)), torch.randint(10, (16,)))


MODELS: dict[str, Callable[[], taiyi_fx.InstrumentedModule]] = {
    made.__name__: made for made in (resnet50, gpt, unet, moe, lstm)
}

OPTIONS: dict[str, dict[str, Any]] = {
    "resnet50": {"depth": 2, "expand": ["layer1.0"]},
    "gpt": {"depth": 4},  # by default the flagged blocks are open too
    "moe": {"depth": 5},
}


def main(folder: str = "docs/images/diagrams") -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, made in MODELS.items():
        torch.manual_seed(0)
        diagram = taiyi_fx.diagram(made(), **OPTIONS.get(name, {}))
        for suffix in (".svg", ".png"):
            diagram.write(Path(folder) / f"{name}{suffix}")
        print(f"{name}: {diagram}")


if __name__ == "__main__":
    main(*sys.argv[1:])
