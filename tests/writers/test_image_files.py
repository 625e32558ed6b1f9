"""Pictures as files."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import taiyi_fx
from taiyi_fx.records.record import Record
from taiyi_fx.writers import Batch, Images
from tests.writers.given import HOSTILE, run


def write(path, *records, start_step=0, **options):
    writer = Images(path, **options)
    writer.open(run(start_step))
    writer.write(Batch(0, records=records))
    writer.flush()
    writer.close()


def files(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*.png"))


def read(path):
    with Image.open(path) as picture:
        return np.asarray(picture)


def test_a_training_runs_pictures_are_files(tmp_path):
    model = taiyi_fx.instrument(
        nn.Sequential(nn.Conv2d(1, 2, 2)),
        {"0": [["FeatureMap", "linear(2, 0)"], ["WeightImage", "at_steps(1)"], "RankMe"]},
        writers=[Images(tmp_path)],
    )
    for step in range(3):
        model(torch.rand(2, 1, 4, 4))
        model.monitor.track(step)
    model.monitor.close()
    assert files(tmp_path) == [
        "FeatureMap/0/00000000.png", "FeatureMap/0/00000002.png", "WeightImage/0/00000001.png"
    ]  # fmt: skip
    recorded = model.monitor.get_output()["0"]["FeatureMap"][2]
    shown = read(tmp_path / "FeatureMap/0/00000002.png")
    assert shown.shape == (*recorded.shape, 3)
    assert np.abs(shown[..., 0] / 255 - recorded.numpy()).max() <= 0.5 / 255 + 1e-6


def test_no_name_leaves_the_folder(tmp_path):
    records = [
        Record(0, name, "FeatureMap", torch.full((2, 2), i / 99)) for i, name in enumerate(HOSTILE)
    ]
    write(tmp_path / "pictures", *records)
    assert len(files(tmp_path / "pictures")) == len(HOSTILE)
    assert len(files(tmp_path)) == len(HOSTILE)
    assert all(len(name.split("/")) == 3 for name in files(tmp_path / "pictures"))


def test_evaluation_is_apart_and_ones_own_pictures_are_named(tmp_path):
    picture = torch.rand(2, 3)
    records = [Record(1, "a", "FeatureMap", picture, "eval"), Record(1, "a", "attention", picture)]
    write(tmp_path, *records, images=["FeatureMap", "attention"])
    assert files(tmp_path) == ["attention/a/00000001.png", "evaluation/FeatureMap/a/00000001.png"]


def test_a_run_that_goes_on_deletes_what_it_makes_again_and_nothing_else(tmp_path):
    picture = torch.rand(2, 3)
    mine = tmp_path / "holidays" / "2026" / "00000007.png"
    mine.parent.mkdir(parents=True)
    mine.write_text("")
    modes = ("train", "eval")
    write(tmp_path, *(Record(s, "a", "FeatureMap", picture, m) for s in range(4) for m in modes))
    write(tmp_path, start_step=2)
    assert files(tmp_path) == [
        "FeatureMap/a/00000000.png", "FeatureMap/a/00000001.png",
        "evaluation/FeatureMap/a/00000000.png", "evaluation/FeatureMap/a/00000001.png",
        "holidays/2026/00000007.png",
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int64, torch.bool])
def test_any_type_is_a_picture(tmp_path, dtype):
    write(tmp_path, Record(0, "a", "FeatureMap", torch.tensor([[0, 1]]).to(dtype)))
    assert read(tmp_path / "FeatureMap/a/00000000.png").tolist() == [[[0] * 3, [255] * 3]]
