"""How far BatchNorm in inference is from BatchNorm in training: small batches, many layers.

Trains one CNN on scikit-learn's digits with batches of different sizes, each seeing as many
images, and reads MeanTID and VarTID of every BatchNorm in three ways:

- training: a training batch against the running statistics, the discrepancy of "Understanding
  the Failure of Batch Normalization for Transformers in NLP", arXiv 2210.05153;
- stacked: all training images against the running statistics after training, in evaluation mode;
- alone: the same, where the layers before normalise by what the images really have.

What "stacked" has more than "alone" was accumulated on the way through the network, as told in
"Delving into the Estimation Shift of Batch Normalization in a Network", arXiv 2203.10778.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import taiyi_fx

QUANTITIES = {
    "MeanTID": r"$\Vert\mu_{images}-\mu_{running}\Vert\;/\;\Vert\sigma_{running}\Vert$",
    "VarTID": r"$\Vert\sigma_{images}-\sigma_{running}\Vert\;/\;\Vert\sigma_{running}\Vert$",
}
STYLES = (("#1b2a5c", "o"), ("#2f7f9b", "s"), ("#6fb05c", "D"), ("#e0a100", "^"))
Found = dict[str, np.ndarray]


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    x_train, x_test, y_train, y_test = map(torch.as_tensor, parts)
    x_train, x_test = (x.float().div(16).reshape(-1, 1, 8, 8) for x in (x_train, x_test))
    return x_train, y_train.long(), x_test, y_test.long()


def cnn(depth: int, width: int = 16) -> nn.Sequential:
    """Layers of one width and resolution, so that they differ in depth alone."""
    parts: list[nn.Module] = []
    for i in range(depth):
        conv = nn.Conv2d(width if i else 1, width, 3, padding=1, bias=False)
        parts += [conv, nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def train(batch_size: int, seed: int, epochs: int, depth: int) -> Found:
    """Discrepancies, quantities x layers x points, and the accuracies of `accuracy`."""
    torch.manual_seed(seed)
    x, y, x_test, y_test = digits()
    batches = len(x) // batch_size  # in an epoch: the incomplete last one is left out
    every = max(1, batches // 4)
    schedule = f"linear({every}, {every - 1})"
    net = cnn(depth)
    model = taiyi_fx.instrument(net, {nn.BatchNorm2d: [[name, schedule] for name in QUANTITIES]})
    optimizer = torch.optim.SGD(model.parameters(), 0.4 * batch_size / 128, 0.9, fused=True)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * batches)
    for epoch in range(epochs):
        for i, batch in enumerate(torch.randperm(len(x)).split(batch_size)[:batches]):
            F.cross_entropy(model(x[batch]), y[batch]).backward()
            model.monitor.track(epoch * batches + i)
            optimizer.step()
            decay.step()
            optimizer.zero_grad()
    training = values(model.monitor)
    images = np.arange(1, training.shape[-1] + 1) * every * batch_size
    shifts = estimation_shift(net, x)
    return {"images": images, "training": training, **shifts, **accuracy(net, x_test, y_test)}


def values(monitor: taiyi_fx.Monitor, mode: Literal["train", "eval"] = "train") -> np.ndarray:
    """What was recorded, quantities x layers x points."""
    layers = monitor.get_output(mode).values()
    return np.array([[[*layer[name].values()] for layer in layers] for name in QUANTITIES])


def estimation_shift(net: nn.Module, x: Tensor) -> Found:
    """Running statistics against those of ``x``, stacked and alone."""
    model = taiyi_fx.instrument(net, {nn.BatchNorm2d: list(QUANTITIES)}, record_eval=True)
    keep_running_statistics(model)
    model.eval()(x)
    model.train()(x)
    model.monitor.track(0)
    return {"stacked": values(model.monitor, "eval"), "alone": values(model.monitor)}


@torch.no_grad()
def accuracy(net: nn.Module, x: Tensor, y: Tensor) -> Found:
    """On the images ``x``, in evaluation mode and with their own statistics."""
    keep_running_statistics(net)
    scores = {"evaluation": net.eval()(x), "batch statistics": net.train()(x)}
    return {k: (s.argmax(1) == y).double().mean().numpy() for k, s in scores.items()}


def keep_running_statistics(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.0


def table(runs: dict[int, Found]) -> str:
    """Mean and standard deviation over seeds."""
    head = ("training, mean", "stacked, first", "stacked, last", "alone, last", "ratio of these")
    lines = []
    for i, name in enumerate(QUANTITIES):
        lines += [f"{name:10}" + "".join(f"{text:>18}" for text in head)]
        for size, found in runs.items():
            stacked, alone = found["stacked"][:, i, :, 0], found["alone"][:, i, :, 0]
            columns = (found["training"][:, i, :, -1].mean(1), stacked[:, 0], stacked[:, -1],
                       alone[:, -1], stacked[:, -1] / alone[:, -1])  # fmt: skip
            lines += [f"batch {size:<4}" + "".join(f"{cell(c):>18}" for c in columns)]
    for size, found in runs.items():
        by_running, by_batch = 100 * found["evaluation"], 100 * found["batch statistics"]
        lines += [f"batch {size:<4} test accuracy {cell(by_running)} % in evaluation mode,"
                  f" {cell(by_batch - by_running)} more by batch statistics"]  # fmt: skip
    return "\n".join(lines)


def cell(x: np.ndarray) -> str:
    return f"{x.mean():.3g} ± {x.std(ddof=min(1, len(x) - 1)):.1g}"


def draw(runs: dict[int, Found], path: str) -> None:
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    grid = figure.subplots(2, 4, sharey="row", sharex="col")
    for q, (name, formula) in enumerate(QUANTITIES.items()):
        for (size, found), style in zip(runs.items(), STYLES, strict=False):
            layers = np.arange(1, found["alone"].shape[2] + 1)
            seen = found["images"][0] / 1000
            curve(grid[q, 0], seen, found["training"][:, q].mean(1), style, f"batches of {size}")
            for column, (key, point) in enumerate((("training", -1), ("alone", 0), ("stacked", 0))):
                curve(grid[q, column + 1], layers, found[key][:, q, :, point], style)
        grid[q, 0].set(yscale="log", ylabel=f"{name}\n{formula}")
    titles = ("Training batches,\nmean over layers", "Training batches,\nat the end",
              "Shift of each layer alone,\nlayers before it exact",
              "Shift as inference has it,\nlayers before it shifted")  # fmt: skip
    for column, title in enumerate(titles):
        grid[0, column].set_title(title, fontsize=10)
        grid[1, column].set_xlabel("BatchNorm layer" if column else "thousand images seen")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    figure.savefig(path, dpi=90)


def curve(
    axes: Axes, x: np.ndarray, y: np.ndarray, style: tuple[str, str], label: str = ""
) -> None:
    """Mean over seeds, and the band from the least to the largest."""
    color, marker = style
    axes.fill_between(x, y.min(0), y.max(0), color=color, alpha=0.15, linewidth=0)
    axes.plot(x, y.mean(0), color=color, marker=marker, markersize=4, label=label,
              markevery=max(1, len(x) // 8))  # fmt: skip
    axes.grid(alpha=0.4, linewidth=0.5)


def main(
    batch_sizes: Sequence[int] = (2, 8, 32, 128),
    seeds: int = 3,
    epochs: int = 8,
    depth: int = 8,
    picture: str = "estimation_shift.png",
) -> dict[int, Found]:
    """What was found for each batch size; the first axis of all arrays is the seed."""
    runs = {}
    for size in batch_sizes:
        found = [train(size, seed, epochs, depth) for seed in range(seeds)]
        runs[size] = {key: np.stack([f[key] for f in found]) for key in found[0]}
    print(table(runs))
    draw(runs, picture)
    print(f"the figure: {Path(picture).resolve()}")
    return runs


if __name__ == "__main__":
    torch.set_num_threads(1)  # more only wait for each other on tensors this small
    main()
