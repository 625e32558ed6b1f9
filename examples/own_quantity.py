"""A quantity of one's own in ten lines: how far activations are from zero mean.

A quantity is a pure function of named readings. The readings merge over micro-batches, so its
value is right under gradient accumulation too, which this example shows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import taiyi_fx
from taiyi_fx import every, output, quantity


@quantity(total=output.moments, squares=output.square_sum)
def off_centre(total, squares: Tensor, *, scale: float = 1.0) -> Tensor:
    """|mean| / RMS of the output: 0 for centred activations, 1 for constant ones."""
    return scale * total.mean.abs() / (squares / total.n).sqrt()


def main() -> dict[str, float]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh())
    cfg = {"ReLU": ["off_centre"], nn.Tanh: [off_centre.at(every(1), scale=100.0)]}
    model = taiyi_fx.instrument(net, cfg)
    batch = torch.randn(32, 8)
    model(batch).sum().backward()
    model.monitor.track(0)
    for part in batch.chunk(4):
        model(part).sum().backward()
    model.monitor.track(1)
    print(model.monitor.records)
    return {name: steps["off_centre"][1] for name, steps in model.monitor.get_output().items()}  # pyright: ignore[reportReturnType]


if __name__ == "__main__":
    main()
