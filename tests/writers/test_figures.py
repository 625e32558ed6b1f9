"""Figures: what is drawn is what was recorded, whatever it is called."""

import io
import itertools
import math

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from PIL import Image

from taiyi_fx.records.record import Record, Records
from taiyi_fx.writers import bands, curves, heatmap, spectra, surface
from tests.writers.given import HOSTILE, recorded, summary


def lines(figure):
    return figure.axes[0].get_lines()


def pixels(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=60)
    return np.asarray(Image.open(file))


def test_curves_are_the_values_of_each_module():
    figure = curves(Records(recorded(["a", "b"])), "InputMean")
    a, b = lines(figure)
    assert a.get_xdata().tolist() == [0, 10, 20, 30, 40, 50]
    assert b.get_ydata().tolist() == [10 * (s + 1) for s in range(0, 60, 10)]
    assert figure.axes[0].get_yscale() == "log"
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["a", "b"]


def test_curves_of_many_modules_have_a_bar_instead_of_a_legend():
    figure = curves(Records(recorded([f"blocks.{i}" for i in range(60)])), "InputMean")
    assert len(lines(figure)) == 60
    assert not figure.legends
    labels = [t.get_text() for t in figure.axes[1].get_yticklabels()]
    assert labels == [str(i) for i in range(0, 60, 3)]
    assert figure.axes[0].get_title(loc="left") == "InputMean of blocks.*"


def test_what_is_not_finite_is_a_gap_with_a_cross():
    values = {0: 1.0, 10: math.nan, 20: math.inf, 30: 2.0, 40: -1.0}
    rows = recorded(["a"], 5, lambda m, s: values[s])
    curve, crosses = lines(curves(Records(rows), "InputMean"))
    np.testing.assert_array_equal(curve.get_ydata(), [1, math.nan, math.nan, 2, -1])
    assert crosses.get_xdata().tolist() == [10, 20]


def test_training_and_evaluation_are_drawn_apart():
    both = Records(recorded(["a"]) + recorded(["a"], value=lambda m, s: 7.0, mode="eval"))
    (line,) = lines(curves(both, "InputMean", mode="eval"))
    assert set(line.get_ydata()) == {7.0}
    (line,) = lines(curves(both, "InputMean"))
    assert 7.0 not in line.get_ydata()


def test_a_heatmap_tells_nan_and_what_is_not_there_apart():
    rows = recorded(["a", "b", "c"], 4, lambda m, s: math.nan if (m, s) == (1, 20) else 10.0**m)
    rows = [r for r in rows if (r.module, r.step) != ("c", 30)]
    figure = heatmap(Records(rows), "InputMean")
    values, bad = (mesh.get_array() for mesh in figure.axes[0].collections)
    assert values.mask.tolist() == [[False] * 4, [False, False, True, False], [False] * 3 + [True]]
    assert (~bad.mask).tolist() == [[False] * 4, [False, False, True, False], [False] * 4]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["NaN or Inf", "no record"]
    assert isinstance(figure.axes[0].collections[0].norm, LogNorm)
    orange = np.all(np.abs(pixels(figure)[..., :3].astype(int) - (213, 94, 0)) < 3, axis=-1)
    assert orange.sum() > 100


def test_sixty_layers_are_all_named_and_no_label_overlaps():
    figure = heatmap(Records(recorded([f"layers.{i}.fc" for i in range(60)])), "InputMean")
    figure.canvas.draw()
    labels = [t for t in figure.axes[0].get_yticklabels() if t.get_text()]
    assert [t.get_text() for t in labels] == [f"{i}.fc" for i in range(60)]
    boxes = [t.get_window_extent() for t in labels]
    assert all(a.y0 >= b.y1 - 1 for a, b in itertools.pairwise(boxes))
    assert min(box.x0 for box in boxes) >= 0


def test_uneven_steps_have_cells_that_meet_half_way():
    rows = [Record(s, "a", "InputMean", 1.0) for s in (0, 2, 10)]
    mesh = heatmap(Records(rows), "InputMean").axes[0].collections[0]
    assert mesh.get_coordinates()[0, :, 0].tolist() == [-1, 1, 6, 14]


def test_spectra_are_ridges_as_high_as_their_values():
    rows = [
        Record(s, "fc", "ForwardInputEigOfCov", torch.tensor([1.0, 0.1, 0.01]) * 10.0**s)
        for s in range(3)
    ]
    figure = spectra(Records(rows), "ForwardInputEigOfCov", "fc")
    ridges = [line.get_ydata() for line in lines(figure)]
    steepness = {round(float(y[0] - y[1]), 6) for y in ridges} | {
        round(float(y[1] - y[2]), 6) for y in ridges
    }
    assert len(steepness) == 1
    assert ridges[2][2] + 2 == pytest.approx(ridges[0][0])
    assert figure.axes[0].texts[-1].get_text() == "0.01 to 1e+02, logarithmic"
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["0", "1", "2"]


def test_a_spectrum_of_a_long_run_has_forty_ridges():
    rows = [Record(s, "fc", "E", torch.rand(4)) for s in range(500)]
    assert len(lines(spectra(Records(rows), "E", "fc"))) == 40


def test_bands_have_a_panel_for_each_module_with_the_median():
    epochs = [summary(e, m, mode) for e in range(3) for m in "abc" for mode in ("train", "eval")]
    figure = bands(epochs, "InputMean")
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "c"]
    train, evaluation = figure.axes[0].get_lines()
    assert train.get_ydata().tolist() == evaluation.get_ydata().tolist() == [2, 2, 2]
    ends, middle, *_ = figure.axes[0].collections
    assert ends.get_paths()[0].get_extents().ymax == 6
    assert (middle.get_paths()[0].get_extents().ymin, middle.get_paths()[0].get_extents().ymax) == (
        1,
        3,
    )


def test_bands_of_streaming_summaries_are_mean_and_deviation():
    figure = bands([summary(e, quartiles=()) for e in range(3)], "InputMean")
    _, middle = figure.axes[0].collections
    extents = middle.get_paths()[0].get_extents()
    assert (extents.ymin, extents.ymax) == (2, 3)


def test_what_is_not_recorded_is_told_with_what_may_have_been_meant():
    records = Records(recorded(["a"]))
    for draw in (curves, heatmap):
        with pytest.raises(
            LookupError, match="no numbers of 'InputMaen'.*Did you mean 'InputMean'"
        ):
            draw(records, "InputMaen")
    with pytest.raises(LookupError, match="no tensors of 'InputMean' of 'a'"):
        spectra(records, "InputMean", "a")
    with pytest.raises(LookupError, match="no tensors of 'InputMean' of 'a'"):
        surface(records, "a", "InputMean")
    with pytest.raises(LookupError, match="no summary of 'InputMaen'.*Did you mean 'InputMean'"):
        bands([summary(0)], "InputMaen")


@pytest.mark.parametrize("count", [3, len(HOSTILE) + 2])
def test_any_name_can_be_drawn(count):
    names = [*HOSTILE, r"$\frac{", "a_b^c$"][-count:]
    records = Records(recorded(names, 2))
    for figure in (curves(records, "InputMean"), heatmap(records, "InputMean")):
        assert pixels(figure).std() > 1
    vectors = Records([Record(0, name, name, torch.rand(3)) for name in names])
    assert pixels(spectra(vectors, names[-1], names[-1])).std() > 1
    assert pixels(bands([summary(0, name) for name in names], "InputMean")).std() > 1


def test_numbers_of_one_step_or_all_nan_can_be_drawn():
    for value in (1.0, math.nan, 0.0, 1e-320, -1.7e308):
        records = Records([Record(3, m, "InputMean", value) for m in "ab"])
        for figure in (curves(records, "InputMean"), heatmap(records, "InputMean")):
            assert pixels(figure).std() > 1
    for value in (1.0, math.nan, 0.0, math.inf, 1e-320):
        vector = Records([Record(3, "a", "E", torch.full((4,), value))])
        assert pixels(spectra(vector, "E", "a")).std() > 1


def test_no_window_and_no_state_of_pyplot_is_touched():
    assert isinstance(curves(Records(recorded(["a"])), "InputMean"), Figure)
    assert pyplot.get_fignums() == []


def test_steps_are_whole_numbers():
    records = Records([Record(step, "a", "InputMean", step + 1.0) for step in range(3)])
    for figure in (curves(records, "InputMean"), heatmap(records, "InputMean")):
        ticks = figure.axes[0].get_xticks()
        assert (ticks == ticks.round()).all()
