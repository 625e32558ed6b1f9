"""Pictures of a run as files, drawn at its end and every few steps."""

import pytest
import torch
from PIL import Image

from taiyi_fx.records.record import Record
from taiyi_fx.writers import Batch, EpochEnd, Figures
from tests.writers.given import numbers, recorded, run, summary


def drawn(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*.png"))


def test_a_run_is_drawn_at_its_end(tmp_path):
    writer = Figures(tmp_path)
    writer.open(run())
    rows = [*recorded(["a", "../b"]), Record(0, "a", "E", torch.rand(4))]
    writer.write(Batch(0, records=rows, ended=EpochEnd(0, 0, [summary(0)])))
    writer.write(numbers(60, mode="eval", InputMean=1.0))
    assert drawn(tmp_path) == []
    writer.close()
    assert drawn(tmp_path) == [
        "E.a.spectra.png", "InputMean.bands.png", "InputMean.curves.png", "InputMean.heatmap.png",
        "evaluation/InputMean.curves.png",
    ]  # fmt: skip
    with Image.open(tmp_path / "InputMean.curves.png") as picture:
        assert picture.size[0] > 500


def test_a_run_is_drawn_every_few_steps(tmp_path):
    writer, times = Figures(tmp_path, every=10), []
    writer.draw = lambda: times.append(step)
    writer.open(run(start_step=5))
    for step in range(5, 40):
        writer.write(numbers(step, InputMean=1.0))
    assert times == [15, 25, 35]
    with pytest.raises(ValueError, match="every is a number of steps, at least 1, not 0"):
        Figures(tmp_path, every=0)
