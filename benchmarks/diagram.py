"""How long a diagram takes, stage by stage: from the instrumented model to the picture.

Run it from the root of the repository; times are by the wall:

    python -m benchmarks.diagram [--quick]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

import torch
from torch import nn

import taiyi_fx
from taiyi_fx.outline.build import outline
from taiyi_fx.outline.view import opened, shown
from taiyi_fx.pictures.diagram import engines
from taiyi_fx.pictures.diagram.dot import to_dot
from taiyi_fx.pictures.diagram.faces import faces
from taiyi_fx.pictures.diagram.latest import latest_values

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from diagram_models import GPT, ResNet50

T = TypeVar("T")


class Flat(nn.Module):
    """A graph of many different operations, none of which is in a module of its own."""

    def __init__(self, operations: int = 1000) -> None:
        super().__init__()
        self.operations = operations
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As many operations as asked for."""
        before = x = self.fc(x)
        for i in range(self.operations - 3):
            x, before = (torch.relu(x), x) if i % 3 else (x + before, x)
        return x


def mlp(layers: int = 1000) -> nn.Sequential:
    """Layers of different widths: none are folded."""
    return nn.Sequential(*(nn.Linear(4 + i % 9, 4 + (i + 1) % 9) for i in range(layers)))


MODELS: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "ResNet-50": (ResNet50, torch.randn(2, 3, 64, 64)),
    "GPT, 12 blocks": (GPT, torch.randint(50, (2, 32))),
    "1,000 operations": (Flat, torch.randn(2, 4)),
    "MLP, 1,000 layers": (mlp, torch.randn(2, 4)),
}

STAGES = ("outline", "view", "values", "dot", "svg")


def timed(work: Callable[[], T], spent: list[float]) -> T:
    """The result of some work, whose seconds are appended."""
    began = time.perf_counter()
    made = work()
    spent.append(time.perf_counter() - began)
    return made


def stages(
    model: taiyi_fx.InstrumentedModule, depth: Literal["auto", "full"]
) -> tuple[int, list[float]]:
    """How many boxes are shown, and the seconds of each stage."""
    spent: list[float] = []
    compiled, monitor = model._instrumentation.compiled, model.monitor
    made = timed(lambda: outline(compiled, monitor.subscriptions, None), spent)
    view = timed(lambda: shown(made, opened(made, depth)), spent)
    read = timed(lambda: latest_values(made, monitor.records, {}), spent)
    source = timed(lambda: to_dot(view, faces(made, view, read)), spent)
    engine = engines.find_engine()
    if engine is not None:
        timed(lambda: engines.render(engine, source, "svg"), spent)
    return len(view.boxes), spent


def rows(*, quick: bool) -> Iterator[str]:
    """A line for each model and depth."""
    yield f"{'seconds':>18}{'depth':>7}{'boxes':>7}" + "".join(f"{s:>9}" for s in (*STAGES, "all"))
    for name, (make, x) in MODELS.items():
        model = taiyi_fx.instrument(make(), {nn.Linear: ["OutputRMS", "OutputGradNorm"]})
        model(x).sum().backward()
        model.monitor.track(0)
        for depth in ("auto",) if quick else ("auto", "full"):
            boxes, spent = stages(model, depth)
            times = "".join(f"{seconds:9.3f}" for seconds in (*spent, sum(spent)))
            yield f"{name:>18}{depth:>7}{boxes:7}{times}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the default depth alone")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for row in rows(quick=given.quick):
        print(row, flush=True)


if __name__ == "__main__":
    main()
