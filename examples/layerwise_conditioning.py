"""What BatchNorm does to the conditioning of every layer of a deep MLP, over training.

Trains a ReLU MLP of 20 linear layers on scikit-learn's digits by gradient descent on all images,
with and without BatchNorm, and reads of each linear layer the largest eigenvalue and a condition
number of two matrices: the second moments of its inputs, E[x x'], and of the gradients of its
outputs, E[g g'], one g for each image's own loss. They are the factors of the layer's block of
the Fisher matrix, as in "Layer-wise Conditioning Analysis in Exploring the Learning Dynamics of
DNNs", arXiv 2002.10801.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib import colormaps
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn

import taiyi_fx

QUANTITIES = {
    "InputCovMaxEig": r"inputs: $\lambda_1$",
    "InputCovCondition50": r"inputs: $\lambda_1/\lambda_{50\,\%}$",
    "OutputGradCovMaxEig": r"output gradients: $\lambda_1$",
    "OutputGradCovCondition50": r"output gradients: $\lambda_1/\lambda_{50\,\%}$",
}
NETS = {"without BatchNorm": False, "with BatchNorm": True}


def digits() -> tuple[Tensor, Tensor]:
    images, labels = map(torch.as_tensor, load_digits(return_X_y=True))
    return (images - images.mean(0)) / 16, labels.long()


def mlp(depth: int, has_norm: bool, width: int = 64) -> nn.Sequential:
    """Linear layers, initialised as He et al. do for ReLU, the last one to 10 classes.

    In float64: condition numbers come out that float32 cannot tell from infinity.
    """
    parts: list[nn.Module] = []
    for i in range(depth):
        is_last = i == depth - 1
        linear = nn.Linear(width, 10 if is_last else width)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="linear" if is_last else "relu")
        nn.init.zeros_(linear.bias)
        norm = [nn.BatchNorm1d(width)] if has_norm else []
        parts += [linear] if is_last else [linear, *norm, nn.ReLU(inplace=True)]
    return nn.Sequential(*parts).double()


def train(
    has_norm: bool, seed: int, steps: int, depth: int, learning_rate: float
) -> tuple[np.ndarray, float]:
    """Values, quantities x layers x recorded steps, and the last loss."""
    torch.manual_seed(seed)
    x, y = digits()
    every = max(1, steps // 60)
    options = {"centered": False}
    cfg = {"Linear": [[name, f"every({every})", options] for name in QUANTITIES]}
    model = taiyi_fx.instrument(mlp(depth, has_norm), cfg)
    optimizer = torch.optim.SGD(model.parameters(), learning_rate)
    loss = torch.tensor(torch.nan)
    for step in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        # The mean loss is each image's own loss times 1 / N: gradients of the latter are wanted.
        model.monitor.track(step, grad_scale=1 / len(x))
        optimizer.step()
    layers = model.monitor.get_output().values()
    recorded = range(0, steps, every)
    values = [[[layer[q].get(s, np.nan) for s in recorded] for layer in layers] for q in QUANTITIES]
    return np.array(values), loss.item()


def table(found: dict[str, np.ndarray], losses: dict[str, list[float]]) -> str:
    """Median over seeds and its extremes: the second and the last but one layer, start and end."""
    depth = next(iter(found.values())).shape[2]
    lines = [
        f"{'':33}" + "".join(f"{f'{net}, {t}':>30}" for net in found for t in ("start", "end"))
    ]
    for i, name in enumerate(QUANTITIES):
        for layer in (2, depth - 1):
            cells = [spread(f[:, i, layer - 1, t]) for f in found.values() for t in (0, -1)]
            lines += [f"{f'{name}, layer {layer}':33}" + "".join(f"{cell:>30}" for cell in cells)]
    return "\n".join([*lines, *(f"last loss {net}: {spread(x)}" for net, x in losses.items())])


def spread(values: Sequence[float] | np.ndarray) -> str:
    return f"{np.median(values):.2g} [{np.min(values):.2g}, {np.max(values):.2g}]"


def draw(found: dict[str, np.ndarray], steps: int, path: str) -> None:
    """Maps of layers and steps, grey where a condition number is infinite."""
    figure = Figure(figsize=(9, 9), layout="constrained")
    grid = figure.subplots(len(QUANTITIES), len(found), sharex=True, sharey=True, squeeze=False)
    colors = colormaps["viridis"].with_extremes(bad="0.75")
    for i, (name, label) in enumerate(QUANTITIES.items()):
        maps = [np.median(values[:, i], axis=0) for values in found.values()]
        finite = np.concatenate([m[np.isfinite(m)] for m in maps])
        norm = LogNorm(finite.min(), finite.max())
        extent = (0, steps, len(maps[0]) + 0.5, 0.5)
        for axes, values, net in zip(grid[i], maps, found, strict=True):
            axes.imshow(values, colors, norm, aspect="auto", extent=extent, interpolation="nearest")
            axes.set_title(f"{label}, {net}", fontsize=10)
        figure.colorbar(grid[i, 0].images[0], ax=grid[i], label=name, pad=0.01)
        grid[i, 0].set(ylabel="linear layer", yticks=range(1, len(maps[0]) + 1, 3))
    for axes in grid[-1]:
        axes.set_xlabel("step")
    figure.savefig(path, dpi=95)


def main(
    seeds: int = 3,
    steps: int = 300,
    depth: int = 20,
    learning_rate: float = 0.1,
    picture: str = "layerwise_conditioning.png",
) -> dict[str, np.ndarray]:
    """What was found for each net, seeds x quantities x layers x recorded steps."""
    found, losses = {}, {}
    for net, has_norm in NETS.items():
        runs = [train(has_norm, seed, steps, depth, learning_rate) for seed in range(seeds)]
        found[net] = np.stack([values for values, _ in runs])
        losses[net] = [loss for _, loss in runs]
    print(table(found, losses))
    draw(found, steps, picture)
    print(f"the figure: {Path(picture).resolve()}")
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
