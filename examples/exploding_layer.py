"""A small GPT learns Python's documentation, and one layer runs away: find it in the report.

One parameter group has a weight decay of the wrong sign, so that its weights grow until nothing is
finite. Keeps the run in runs/exploding_layer and writes exploding_layer.html.
"""

from __future__ import annotations

import math
import shutil
import sys
import warnings
from pathlib import Path
from pydoc_data import topics

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx

sys.path.insert(0, str(Path(__file__).parent))
from diagram_models import GPT

STEPS, BATCH, LENGTH = 240, 8, 32

CFG = {
    nn.Linear: ["OutputRMS", "OutputGradNorm", "WeightNorm", ["InputHistogram", "every(20)"]],
    nn.LayerNorm: ["OutputRMS"],
    nn.ReLU: ["DeadNeuronRatio"],
    "*": ["NonFinite"],
}


def main(folder: str = ".", steps: int = STEPS) -> Path:
    """Trains, and returns the report's path."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    words, text = letters()
    model = GPT(words)
    run = Path(folder) / "runs" / "exploding_layer"
    shutil.rmtree(run, ignore_errors=True)
    probed = taiyi_fx.instrument(model, CFG, run=run)
    decayed = list(model.get_submodule("h.7.mlp").parameters())
    others = [p for p in model.parameters() if all(p is not q for q in decayed)]
    groups = [{"params": others}, {"params": decayed, "weight_decay": -60.0}]  # the slip: its sign
    optimizer = torch.optim.AdamW(groups, lr=2e-3)
    warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)  # the report shows them
    for step in range(steps):
        loss = learn(probed, batch(text), optimizer, step)
        if (step + 1) % 50 == 0:
            probed.monitor.tick_epoch()
            print(f"step {step + 1}: loss {loss:.3g}")
        if not math.isfinite(loss):
            break
    probed.monitor.close()
    return taiyi_fx.report(run, Path(folder) / "exploding_layer.html")


def letters() -> tuple[int, Tensor]:
    """How many letters there are, and the text as their numbers."""
    text = "\n".join(topics.topics.values())
    known = {letter: number for number, letter in enumerate(sorted(set(text)))}
    return len(known), torch.tensor([known[letter] for letter in text])


def batch(text: Tensor) -> Tensor:
    """Stretches of the text, one letter longer than the model sees."""
    starts = torch.randint(len(text) - LENGTH, (BATCH, 1))
    return text[starts + torch.arange(LENGTH + 1)]


def learn(
    probed: taiyi_fx.InstrumentedModule, seen: Tensor, optimizer: torch.optim.Optimizer, step: int
) -> float:
    """One step; returns its loss."""
    loss = F.cross_entropy(probed(seen[:, :-1]).flatten(0, 1), seen[:, 1:].flatten())
    probed.monitor.log("loss", loss)
    loss.backward()
    probed.monitor.track(step)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


if __name__ == "__main__":
    print(f"open {main(sys.argv[1] if len(sys.argv) > 1 else '.')}")
