"""The main job: train a CNN on real digits and watch what happens inside.

Eight quantities on different schedules, asked for by module name, class name, class and pattern.
Prints what was seen and the test accuracy, draws where the probes stand (probes.svg), and writes a
page with all of it (report.html).
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from tqdm import tqdm

import taiyi_fx


class DigitsCNN(nn.Module):
    """A small convolutional network with BatchNorm, in-place ReLU and a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True)
        )
        self.block = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16))
        self.act = nn.ReLU(inplace=True)
        self.head = nn.Sequential(
            nn.Conv2d(16, 32, 3, padding=1, stride=2), nn.BatchNorm2d(32), nn.ReLU(inplace=True)
        )
        self.fc = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores, N x 10, of images, N x 1 x 8 x 8."""
        x = self.stem(x)
        y = self.block(x)
        y += x
        return self.fc(self.head(self.act(y)).mean((2, 3)))


CONFIG = {
    nn.BatchNorm2d: [["MeanTID", "linear(10, 9)"], ["VarTID", "linear(10, 9)"]],
    "Conv2d": ["InputSndNorm", ["InputCovCondition", "linear(20, 0)"]],
    "fc": ["OutputGradSndNorm", "WeightNorm", "WeightGradNorm", ["RankMe", "linear(20, 0)"]],
    "[sh]*.2": [["DeadNeuronRatio", "every(10)"]],
}


def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    x_train, x_test, y_train, y_test = map(torch.as_tensor, parts)
    shape = (-1, 1, 8, 8)
    return (
        x_train.float().div(16).reshape(shape),
        y_train.long(),
        x_test.float().div(16).reshape(shape),
        y_test.long(),
    )


def main(epochs: int = 8, picture: str = "probes.svg", page: str = "report.html") -> float:
    torch.manual_seed(0)
    x_train, y_train, x_test, y_test = digits()
    model = taiyi_fx.instrument(DigitsCNN(), CONFIG)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = 0
    for epoch in range(epochs):
        batches = torch.randperm(len(x_train)).split(64)
        bar = tqdm(batches, desc=f"epoch {epoch + 1}/{epochs}", file=sys.stdout)
        for rows in bar:
            loss = F.cross_entropy(model(x_train[rows]), y_train[rows])
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()
            bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
            step += 1
    model.eval()
    with torch.no_grad():
        accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
    print(f"\n{model.monitor.records}\n")
    print(f"test accuracy {accuracy:.1%} on {len(x_test)} images never trained on")
    print(f"where the probes stand: {Path(taiyi_fx.diagram(model).write(picture)).resolve()}")
    print(f"all of it on a page: {Path(taiyi_fx.report(model, page)).resolve()}")
    return accuracy


if __name__ == "__main__":
    main()
