"""Recordings: what their file holds comes back; the first site of NaN or Inf."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx.runs.recording import (
    RecordedSite,
    Recording,
    SiteStatistics,
    file_of,
    files_in,
    read_recording,
    recordings_in,
    step_of,
)

SITES = [
    *(RecordedSite(name, "output") for name in ("a.0", "a.1", "a", "b", "")),
    *(RecordedSite(name, "output_grad") for name in ("a.0", "a.1", "a", "b", "")),
]


def recording(bad=(), steps=(3, 4, 5), rank=0):
    """A recording with counts of NaN at pairs of a row and a site."""
    values = np.ones((len(steps), len(SITES), 4))
    values[:, :, :3] = np.arange(3 * len(SITES)).reshape(len(SITES), 3)
    values[:, :, 3] = 0
    for row, site in bad:
        values[row, SITES.index(site), 3] = 2
    return Recording(("a reason",), tuple(steps), tuple(SITES), values, rank)


@given(st.lists(st.floats() | st.integers(0, 2**60).map(float), min_size=4, max_size=4))
def test_a_file_gives_back_seven_digits(tmp_path_factory, numbers):
    values = np.array(numbers).reshape(1, 1, 4)
    made = Recording(("x",), (7,), (RecordedSite("fc@1", "output"),), values, 2)
    file = file_of(tmp_path_factory.mktemp("run"), 7)
    made.write(file)
    found = read_recording(file)
    assert (found.reasons, found.steps, found.sites, found.rank) == (
        made.reasons, made.steps, made.sites, made.rank,
    )  # fmt: skip
    np.testing.assert_allclose(found.values, values, rtol=1e-6, equal_nan=True)


def test_values_come_by_step_and_those_not_read_are_left_out():
    made = recording()
    made.values[1, 0] = math.nan
    assert made.of("a.0") == {
        3: SiteStatistics(0.0, 1.0, 2.0, 0),
        5: SiteStatistics(0.0, 1.0, 2.0, 0),
    }
    with pytest.raises(LookupError, match=r"no 'output' of 'a\.2' was recorded.*'a\.[01]'"):
        made.of("a.2")


A0, A, B, WHOLE = (RecordedSite(name, "output") for name in ("a.0", "a", "b", ""))
G_A0, G_A1, G_A, G_B, G_WHOLE = (
    RecordedSite(name, "output_grad") for name in ("a.0", "a.1", "a", "b", "")
)


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ([], None),
        ([(2, A0), (1, B), (1, WHOLE)], (4, B)),
        ([(1, A), (1, G_A0)], (4, A)),
        ([(1, G_A0), (1, G_A1)], (4, G_A1)),
        ([(0, G_A0), (0, G_B), (0, G_WHOLE)], (3, G_WHOLE)),
    ],
)
def test_the_first_site_is_that_of_the_first_step_values_before_gradients(bad, expected):
    assert recording(bad).first_non_finite == expected


def test_of_one_tensor_the_innermost_module_is_named():
    made = recording([(0, G_A1), (0, G_A)])
    made.values[0, SITES.index(G_A)] = made.values[0, SITES.index(G_A1)]
    assert made.first_non_finite == (3, G_A1)


def test_it_tells_in_words_and_as_a_table():
    assert recording().summary == "the last 3 steps of 10 sites, all finite"
    assert recording([(1, G_B)]).summary.endswith(
        "NaN or Inf is first at step 4, in the gradient of the output of 'b'"
    )
    assert "abs_max" in str(recording())
    assert "<table" in recording()._repr_html_()


def test_those_of_all_ranks_are_found_in_order_and_no_others(tmp_path):
    (tmp_path / "rank1").mkdir()
    for folder, step, rank in ((tmp_path, 9, 0), (tmp_path, 2, 0), (tmp_path / "rank1", 9, 1)):
        recording(steps=(step,), rank=rank).write(file_of(folder, step))
    (tmp_path / ".recording-00000001.json.77.part").write_text("half")
    assert [(one.step, one.rank) for one in recordings_in(tmp_path)] == [(2, 0), (9, 0), (9, 1)]
    assert sorted(step_of(file) for file in files_in(tmp_path)) == [2, 9, 9]


@pytest.mark.parametrize(
    ("text", "what"),
    [("{", "damaged"), ("{}", "damaged"), (json.dumps({"version": 99}), "newer taiyi_fx")],
)
def test_a_damaged_file_is_named(tmp_path, text, what):
    file = file_of(tmp_path, 1)
    file.write_text(text)
    with pytest.raises(ValueError, match=what) as raised:
        read_recording(file)
    assert "recording-00000001.json" in str(raised.value)
