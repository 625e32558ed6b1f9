"""TensorBoard's event files, read back by TensorBoard's own reader."""

import io
import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from torch import nn

import taiyi_fx
from taiyi_fx.records.epochs import EpochSummary
from taiyi_fx.records.record import Block, Record
from taiyi_fx.writers import Batch, EpochEnd, Event, TensorBoard
from taiyi_fx.writers.names import Tags
from tests.writers.given import RECORDS, numbers, run

ALL = {"scalars": 0, "histograms": 0, "images": 0, "tensors": 0, "compressedHistograms": 1}


def write(path, *batches, start_step=0, **options):
    writer = TensorBoard(path, **options)
    writer.open(run(start_step))
    for batch in batches:
        writer.write(batch)
    writer.flush()
    writer.close()


def read(path):
    return EventAccumulator(str(path), ALL).Reload()


def events(path):
    (file,) = path.glob("events.*")
    return [e for e in LegacyEventFileLoader(str(file)).Load() if e.HasField("summary")]


def scalars(path):
    found = read(path)
    return {tag: {e.step: e.value for e in found.Scalars(tag)} for tag in found.Tags()["scalars"]}


def test_a_step_is_one_event_with_all_its_values(tmp_path):
    write(tmp_path, numbers(5, InputMean=1.0, RankMe=2.0), numbers(6, InputMean=3.0))
    about_the_run, *steps = events(tmp_path)
    assert [(e.step, len(e.summary.value)) for e in steps] == [(5, 2), (6, 1)]
    assert about_the_run.summary.value[0].tag == "taiyi_fx/run"
    assert scalars(tmp_path) == {"InputMean/fc": {5: 1.0, 6: 3.0}, "RankMe/fc": {5: 2.0}}


def test_not_finite_numbers_are_what_they_are(tmp_path):
    values = [math.nan, math.inf, -math.inf]
    write(tmp_path, *(numbers(i, InputMean=v) for i, v in enumerate(values)))
    nan, inf, minus = scalars(tmp_path)["InputMean/fc"].values()
    assert math.isnan(nan)
    assert (inf, minus) == (math.inf, -math.inf)


@settings(max_examples=30)
@given(records=st.lists(RECORDS, max_size=5, unique_by=lambda r: (r.module, r.quantity)))
def test_what_is_read_back_is_what_was_written(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("tensorboard")
    write(path, Batch(0, records=records))
    found = {"train": read(path)}
    if (path / "evaluation").exists():
        found["eval"] = read(path / "evaluation")
    tags = Tags(run())
    for record in records:
        check(found[record.mode], tags.of((record.module, record.quantity)), record)


def check(found, tag, record):
    value = record.value
    if isinstance(value, torch.Tensor) and value.ndim:
        x = (value.abs() if value.is_complex() else value).double().reshape(-1)
        finite = x[x.isfinite()]
        if len(finite):
            (event,) = found.Histograms(tag)
            histogram = event.histogram_value
            assert histogram.num == sum(histogram.bucket) == len(finite)
            assert (histogram.min, histogram.max) == (finite.min(), finite.max())
        if len(finite) < len(x):
            (event,) = found.Scalars(f"{tag}/not finite")
            assert event.value == len(x) - len(finite)
        return
    if isinstance(value, torch.Tensor):
        value = (value.abs() if value.is_complex() else value).item()
    (event,) = found.Scalars(tag)
    with np.errstate(over="ignore"):
        expected = np.float32(value)
    np.testing.assert_array_equal(np.float32(event.value), expected)
    assert event.step == record.step


def test_a_histogram_has_the_elements_where_they_are(tmp_path):
    x = torch.tensor([0.0, 0.01, 5.0, 10.0, math.nan, math.inf])
    write(tmp_path, Batch(0, records=[Record(0, "fc", "ForwardInputEigOfCov", x)]))
    (event,) = read(tmp_path).Histograms("ForwardInputEigOfCov/fc")
    found = event.histogram_value
    assert len(found.bucket) == 64
    assert (found.bucket[0], found.bucket[32], found.bucket[63]) == (2, 1, 1)
    assert found.bucket_limit[63] == 10
    assert scalars(tmp_path)["ForwardInputEigOfCov/fc/not finite"] == {0: 2}


def test_a_quantity_that_counts_in_bins_is_that_histogram(tmp_path):
    model = nn.Sequential(nn.Linear(6, 1))
    writers = [TensorBoard(tmp_path)]
    instrumented = taiyi_fx.instrument(model, {"0": ["InputHistogram"]}, writers=writers)
    instrumented(torch.tensor([-3.0, 0.0, 0.75, 0.6, math.inf, math.nan])).sum().backward()
    instrumented.monitor.track(0)
    instrumented.monitor.close()
    (event,) = read(tmp_path).Histograms("InputHistogram/0")
    found = event.histogram_value
    filled = {limit: n for limit, n in zip(found.bucket_limit, found.bucket, strict=True) if n}
    assert filled == {-2.0: 1, 0.0: 1, 1.0: 2}
    assert (found.min, found.max, found.num) == (-4, 1, 4)
    assert scalars(tmp_path)["InputHistogram/0/not finite"] == {0: 2}


def test_pictures_are_images_and_what_is_not_finite_is_orange(tmp_path):
    picture = torch.tensor([[0.0, 0.5, 1.0], [math.nan, 2.0, -1.0]])
    write(tmp_path, Batch(0, records=[Record(3, "conv", "FeatureMap", picture)]))
    (image,) = read(tmp_path).Images("FeatureMap/conv")
    assert (image.step, image.width, image.height) == (3, 3, 2)
    shown = np.asarray(Image.open(io.BytesIO(image.encoded_image_string)))
    assert shown.tolist() == [[[0] * 3, [128] * 3, [255] * 3], [[213, 94, 0], [255] * 3, [0] * 3]]


def test_evaluation_is_a_run_of_its_own(tmp_path):
    write(tmp_path, numbers(1, InputMean=1.0), numbers(1, mode="eval", InputMean=2.0))
    assert scalars(tmp_path)["InputMean/fc"] == {1: 1.0}
    assert scalars(tmp_path / "evaluation")["InputMean/fc"] == {1: 2.0}


def test_a_run_that_goes_on_replaces_the_later_steps(tmp_path):
    modes = ("train", "eval")
    write(tmp_path, *(numbers(i, mode=m, InputMean=float(i)) for i in range(6) for m in modes))
    write(tmp_path, numbers(4, InputMean=-4.0), start_step=4)
    assert scalars(tmp_path)["InputMean/fc"] == {0: 0, 1: 1, 2: 2, 3: 3, 4: -4}
    assert scalars(tmp_path / "evaluation")["InputMean/fc"] == {0: 0, 1: 1, 2: 2, 3: 3}


def test_what_was_told_is_text(tmp_path):
    told = [Event(2, "non_finite", "fc", "the first NaN"), Event(2, "warning", "", "no value")]
    write(tmp_path, Batch(0, events=told))
    found = read(tmp_path)
    for tag, text in {
        "non_finite": b"fc: the first NaN",
        "warning": b"the model: no value",
    }.items():
        (event,) = found.Tensors(f"taiyi_fx/{tag}")
        assert (event.step, event.tensor_proto.string_val[0]) == (2, text)


def test_epochs_are_written_on_request(tmp_path):
    summary = EpochSummary(3, "fc", "InputMean", "train", 2, 1.0, 0.5, 0.25, 2.0)
    ended = Batch(3, ended=EpochEnd(3, 3, [summary]))
    write(tmp_path / "without", ended)
    assert not (tmp_path / "without" / "epochs").exists()
    write(tmp_path / "with", ended, epochs=True)
    assert scalars(tmp_path / "with" / "epochs") == {
        "epochs/InputMean/fc/mean": {3: 1.0},
        "epochs/InputMean/fc/min": {3: 0.25},
        "epochs/InputMean/fc/max": {3: 2.0},
    }


def test_a_training_run_is_in_tensorboard(tmp_path):
    model = taiyi_fx.instrument(
        nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten()),
        {"0": ["InputMean", "FeatureMap", "ForwardInputEigOfCov"]},
        writers=[TensorBoard(tmp_path)],
    )
    for step in range(3):
        model.monitor.log("val/loss", 0.5)
        model(torch.full((2, 1, 3, 3), float(step)))
        model.monitor.track(step)
    model.monitor.close()
    assert scalars(tmp_path) == {
        "InputMean/0": {0: 0.0, 1: 1.0, 2: 2.0},
        "val/loss": {0: 0.5, 1: 0.5, 2: 0.5},
    }
    tags = read(tmp_path).Tags()
    assert (tags["images"], tags["histograms"]) == (["FeatureMap/0"], ["ForwardInputEigOfCov/0"])


def test_a_name_that_cannot_be_one_is_no_reason_to_lose_the_step(tmp_path):
    series = (("fc", "InputMean"), ("\udc80\x00\n", "InputMean"))
    write(tmp_path, Batch(0, [Block(0, "train", series, [1.0, 2.0])]))
    assert set(scalars(tmp_path)) == {"InputMean/fc", "InputMean/%ED%B2%80%00%0A"}


def test_a_second_run_from_the_start_hides_nothing(tmp_path):
    write(tmp_path, numbers(0, InputMean=1.0), numbers(1, InputMean=2.0))
    write(tmp_path)
    found = [event.value for event in read(tmp_path).Scalars("InputMean/fc")]
    assert found == [1.0, 2.0]
