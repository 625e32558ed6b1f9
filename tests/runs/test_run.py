"""A run read back: curves, grids, tensors and tables, and errors that name what there is."""

import sqlite3
import sys
from contextlib import closing

import numpy as np
import pytest
import torch

import taiyi_fx
from taiyi_fx.records.record import Block, Record, Records
from taiyi_fx.runs import SeriesName
from taiyi_fx.writers import Batch, Store
from tests.writers.runs import FORMATS, numbers, opened, written

both = pytest.mark.parametrize("kind", FORMATS)


@pytest.fixture(params=FORMATS)
def run(request, tmp_path):
    """Modules a and b with q at steps 0 and 1, a with r in evaluation, b with a tensor t."""
    tensor = Record(1, "b", "t", torch.arange(6, dtype=torch.int16).reshape(2, 3))
    batches = [
        numbers(1, [1.0, 10.0]),
        numbers(0, [0.0, 5.0]),
        numbers(0, [7.0], mode="eval", quantity="ratio"),
        Batch(0, records=[tensor]),
    ]
    written(request.param, tmp_path, batches)
    with taiyi_fx.open_run(tmp_path) as found:
        yield found


def test_a_curve_is_in_the_order_of_its_steps(run):
    curve = run.series("b", "q")
    assert curve.steps.tolist() == [0, 1]
    assert curve.values.tolist() == [5, 10]
    assert (curve.steps.dtype, curve.values.dtype) == (np.int64, np.float64)


def test_tensors_come_in_their_type(run):
    (found,) = run.tensors("b", "t").values()
    assert found.dtype == np.int16
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]
    found += 1  # it is the reader's own


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda r: r.series("bb", "q"), "no module 'bb' in the run. Did you mean 'b'"),
        (lambda r: r.series("a", "q", call=3), "no module 'a@3' in the run."),
        (lambda r: r.series("a", "Ratio"), "no 'Ratio' of 'a'. Did you mean 'ratio'"),
        (lambda r: r.series("a", "ratio"), "no 'ratio' of 'a' in train, but in eval"),
        (lambda r: r.tensors("a", "x"), "no 'x' of 'a'. Known are 'q', 'ratio'"),
        (lambda r: r.series("b", "t"), "'t' of 'b' are tensors: see Run.tensors"),
        (lambda r: r.tensors("b", "q"), "'q' of 'b' are numbers: see Run.series"),
        (lambda r: r.grid("t"), "no numbers of 't' in train. Known are 'q'"),
        (lambda r: r.grid("q", "eval"), "no numbers of 'q' in eval. Known are 'ratio'"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(run, ask, text):
    with pytest.raises(LookupError) as error:
        ask(run)
    assert text in str(error.value)


@both
def test_a_grid_of_a_run_is_that_of_its_records(kind, tmp_path):
    rng = np.random.default_rng(0)
    records = [
        Record(int(s), f"m{m}", "q", float(v))
        for s, m, v in zip(*rng.integers(0, 6, (2, 60)), rng.normal(size=60), strict=True)
    ]
    written(kind, tmp_path, [Batch(0, records=records[i : i + 7]) for i in range(0, 60, 7)])
    expected = Records(records).grid("q")
    with taiyi_fx.open_run(tmp_path) as run:
        found = run.grid("q")
    assert found.modules == expected.modules
    for one, other in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(one, other)


@both
def test_integers_are_exact(kind, tmp_path):
    values = [2**53 + 1, -(2**63), 2**63 - 1]
    blocks = [Block(s, "train", (("a", "q"),), [v]) for s, v in enumerate(values)]
    written(kind, tmp_path, [Batch(0, blocks)])
    with taiyi_fx.open_run(tmp_path) as run:
        curve = run.series("a", "q")
        assert curve.values.dtype == np.int64
        assert curve.values.tolist() == values
        assert run.to_numpy()["value"].dtype == np.float64


def test_a_table_shows_what_there_is(run):
    assert [line.split() for line in str(run).splitlines()] == [
        ["module", "quantity", "mode", "steps"],
        ["------", "--------", "-----", "-----------"],
        ["a", "q", "train", "0", "...", "1", "(2)"],
        ["b", "q", "train", "0", "...", "1", "(2)"],
        ["a", "ratio", "eval", "0"],
        ["b", "t", "train", "1"],
    ]


@both
def test_many_curves_are_read_in_one_go(kind, tmp_path):
    tensor = Record(0, "m", "t", torch.zeros(2))
    batches = [numbers(4, [1.0, 2.0, 3.0]), numbers(2, [5.0, float("nan")], records=[tensor])]
    batches += [numbers(2, [6.0]), numbers(0, [7.0], mode="eval")]
    written(kind, tmp_path, batches)
    with taiyi_fx.open_run(tmp_path) as run:
        spans = run.spans()
        assert {(*name[::2], *span) for name, span in spans.items()} == {
            ("a", "train", 3, 2, 4), ("b", "train", 2, 2, 4), ("c", "train", 1, 4, 4),
            ("m", "train", 1, 0, 0), ("a", "eval", 1, 0, 0),
        }  # fmt: skip
        curves = run.curves(spans)
        assert list(curves) == [name for name in spans if name.module != "m"]
        for name, curve in curves.items():
            expected = run.series(*name)
            np.testing.assert_array_equal(curve.steps, expected.steps)
            np.testing.assert_array_equal(curve.values, expected.values)
        assert run.curves([]) == {}
        one = SeriesName("a", "q", "train")
        assert run.curves([one])[one].values.tolist() == [5, 6, 1]
        with pytest.raises(KeyError):
            run.curves([SeriesName("a", "q", "none")])  # type: ignore[arg-type]


def test_a_notebook_shows_a_table_in_which_names_are_only_text(tmp_path):
    block = Block(
        0, "train", (("<script>", "a&b"), *((f"m{i}", "q") for i in range(250))), [1.0] * 251
    )
    written(FORMATS[0], tmp_path, [Batch(0, [block])])
    with taiyi_fx.open_run(tmp_path) as run:
        shown = run._repr_mimebundle_(include=None, exclude=None)
        assert shown["text/plain"] == repr(run)
    page = shown["text/html"]
    assert "<script>" not in page
    assert "<td>&lt;script&gt;</td><td>a&amp;b</td><td>train</td><td>0</td>" in page
    assert page.count("<tr>") == 201
    assert page.endswith("</table><p>... and 51 more</p>")


@both
def test_an_empty_run_reads_as_empty(kind, tmp_path):
    written(kind, tmp_path, [])
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.modules == run.quantities == run.events == run.epochs == []
        assert len(run.to_numpy()["value"]) == len(run.to_pandas()) == len(run.to_polars()) == 0
        assert str(run).splitlines()[0].split() == ["module", "quantity", "mode", "steps"]
        with pytest.raises(LookupError):
            run.grid("q")


@both
def test_what_is_recorded_after_opening_is_seen(kind, tmp_path):
    writer = opened(kind, tmp_path)
    writer.write(numbers(0, [1.0]))
    writer.flush()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.modules == ["a"]
        writer.write(numbers(1, [1.0, 2.0]))
        writer.flush()
        assert run.modules == ["a", "b"]
        assert len(run.series("a", "q").steps) == 2
    writer.close()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_names_the_extra(library, tmp_path, monkeypatch):
    written(Store, tmp_path, [numbers(0, [1.0])])
    monkeypatch.setitem(sys.modules, library, None)
    with (
        taiyi_fx.open_run(tmp_path) as run,
        pytest.raises(ImportError, match=rf"pip install 'taiyi-fx\[{library}\]'"),
    ):
        getattr(run, f"to_{library}")()


@both
def test_a_series_of_numbers_and_tensors_has_one_span(kind, tmp_path):
    written(kind, tmp_path, [numbers(step, [0.0]) for step in range(3)])
    tensors = [Record(step, "a", "q", torch.ones(2)) for step in (2, 5)]
    written(kind, tmp_path, [Batch(0, records=tensors)], start_step=2)
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.spans() == {SeriesName("a", "q", "train"): (4, 0, 5)}


def test_a_run_of_no_one_is_damaged(tmp_path):
    written(Store, tmp_path, [numbers(0, [0.0])])
    with closing(sqlite3.connect(tmp_path / "run.sqlite")) as db, db:
        db.execute("DELETE FROM run")
    with (
        taiyi_fx.open_run(tmp_path) as run,
        pytest.raises(ValueError, match="is damaged: it has no session"),
    ):
        run.model  # noqa: B018 - it raises
