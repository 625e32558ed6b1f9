"""A step as one dictionary for a dashboard."""

import math
from types import SimpleNamespace

import numpy as np
import torch

from taiyi_fx.records.record import Event, Record
from taiyi_fx.writers import Batch
from taiyi_fx.writers.step_values import StepValues
from tests.writers.given import run

PACKAGE = SimpleNamespace(
    Image=lambda pixels: ("image", pixels.shape),
    Histogram=lambda np_histogram: ("histogram", int(np_histogram[0].sum())),
)


def of(*records, events=()):
    return StepValues(run(), PACKAGE, {"FeatureMap"}).of(Batch(0, records=records, events=events))


def test_each_step_has_its_values_by_tag():
    found = of(Record(0, "fc", "InputMean", 1.0), Record(1, "fc", "InputMean", 2.0, "eval"))
    assert found == {0: {"InputMean/fc": 1.0}, 1: {"evaluation/InputMean/fc": 2.0}}


def test_tensors_are_histograms_with_a_count_of_what_is_not_finite():
    found = of(Record(0, "fc", "ForwardInput", torch.tensor([1.0, 2.0, math.nan])))
    assert found[0] == {
        "ForwardInput/fc": ("histogram", 2),
        "ForwardInput/fc/not finite": 1,
    }


def test_pictures_are_images_of_three_colours():
    found = of(Record(0, "conv", "FeatureMap", torch.zeros(4, 5)))
    assert found[0] == {"FeatureMap/conv": ("image", (4, 5, 3))}
    assert np.prod(found[0]["FeatureMap/conv"][1]) == 60


def test_events_of_a_step_are_lines_of_one_text():
    events = [Event(3, "warning", "fc", "no value"), Event(3, "warning", "", "late")]
    assert of(events=events) == {3: {"taiyi_fx/warning": "fc: no value\nthe model: late"}}
