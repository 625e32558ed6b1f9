"""A run of several parts is read as one."""

import numpy as np
import pytest
import torch

import taiyi_fx
from taiyi_fx.cli import main
from taiyi_fx.records.record import Block, Event, Record
from taiyi_fx.runs.resume import next_step
from taiyi_fx.writers import Batch, EpochEnd, Store
from tests.writers.runs import FORMATS, info, part_written

both = pytest.mark.parametrize("kind", FORMATS)


def batch(step, values, **rest):
    """A number of each series of ``(module, quantity)``."""
    return Batch(0, [Block(step, "train", tuple(values), [*values.values()])], **rest)


def stages(kind, path, name=""):
    """Two ranks with modules of their own, and the norm of the gradient on each."""
    for rank, module in enumerate(("first", "second")):
        tensor = Record(1, module, "t", torch.full((2,), float(rank)))
        event = Event(1 - rank, "note", module, "seen")
        batches = [
            batch(0, {(module, "q"): rank + 0.5, ("", "GradNorm"): float(rank)}, events=[event]),
            batch(1, {(module, "q"): rank + 1.5}, records=[tensor]),
            Batch(0, ended=EpochEnd(0, 7, ())),
        ]
        of = {"part": f"{name}{rank}" if name else ""}
        part_written(kind, path, batches, info(rank=rank, launch="a", **of))
    return path


@both
def test_modules_of_ranks_keep_their_names(kind, tmp_path):
    with taiyi_fx.open_run(stages(kind, tmp_path)) as run:
        assert run.path == tmp_path
        assert run.modules == ["first", "", "second", "rank1"]
        assert run.series("second", "q").values.tolist() == [1.5, 2.5]
        assert run.series("", "GradNorm").values.tolist() == [0.0]
        assert run.series("rank1", "GradNorm").values.tolist() == [1.0]
        assert run.tensors("second", "t")[1].tolist() == [1.0, 1.0]
        assert run.tensors("first", "t")[1].tolist() == [0.0, 0.0]


@both
def test_modules_of_parts_have_their_names_in_front(kind, tmp_path):
    with taiyi_fx.open_run(stages(kind, tmp_path, "stage")) as run:
        assert run.modules == ["stage0.first", "stage0", "stage1.second", "stage1"]
        assert run.series("stage1", "GradNorm").values.tolist() == [1.0]
        assert [event.module for event in run.events] == ["stage1.second", "stage0.first"]


@both
def test_a_grid_and_a_table_have_the_numbers_of_all(kind, tmp_path):
    with taiyi_fx.open_run(stages(kind, tmp_path)) as run:
        modules, steps, values, present = run.grid("q")
        assert (modules, steps.tolist()) == (("first", "second"), [0, 1])
        assert values.tolist() == [[0.5, 1.5], [1.5, 2.5]]
        assert present.all()
        table = run.to_numpy()
        assert sorted(table["value"].tolist()) == [0.0, 0.5, 1.0, 1.5, 1.5, 2.5]
        assert table["module"].tolist().count("rank1") == 1
        spans = {tuple(name[:2]): span.numbers for name, span in run.spans().items()}
        assert spans[("second", "q")] == 2
        assert run.curves(run.spans()).keys() == {n for n in run.spans() if n.quantity != "t"}


@both
def test_slices_go_on_from_the_marks_of_all_parts(kind, tmp_path):
    with taiyi_fx.open_run(stages(kind, tmp_path)) as run:
        found = list(run.source.slices())
        assert sum(len(each.step) for each in found) == 6
        ids = np.concatenate([each.series for each in found])
        assert set(ids.tolist()) == {s.id for s in run.source.series() if s.quantity != "t"}
        assert list(run.source.slices(found[-1].mark)) == []
    about = info(2, rank=1, launch="a")
    part_written(kind, tmp_path, [batch(2, {("second", "q"): 9.0})], about)
    if kind is Store:  # a session that resumes changes the mark of one in Parquet
        with taiyi_fx.open_run(tmp_path) as run:
            (new,) = run.source.slices(found[-1].mark)
            assert new.value.tolist() == [9.0]


@both
def test_sessions_epochs_and_events_are_those_of_all(kind, tmp_path):
    with taiyi_fx.open_run(stages(kind, tmp_path)) as run:
        assert len(run.sessions) == 1
        assert run.model == "torch.nn.modules.container.Sequential"
        assert run.epochs == [(7, 0, 1)]
        assert [(event.step, event.module) for event in run.events] == [
            (0, "second"), (1, "first"),
        ]  # fmt: skip
        assert run.source.shapes().keys() == {
            s.id for s in run.source.series() if s.quantity == "t"
        }
    assert next_step(tmp_path) == 2


@both
def test_the_outline_has_a_box_for_each_part(kind, tmp_path):
    with taiyi_fx.open_run(stages(kind, tmp_path)) as run:
        outline = run.outline
        assert [item.label for item in outline.items if item.parent == 0] == ["rank0", "rank1"]
        assert taiyi_fx.outline.Outline.from_json(outline.to_json()) == outline


def test_a_part_that_is_damaged_is_named_and_no_file_stays_open(tmp_path):
    stages(Store, tmp_path)
    (tmp_path / "rank1" / "run.sqlite").write_bytes(b"no database at all, but long enough")
    with pytest.raises(ValueError, match=r"rank1.run.sqlite' is damaged"):
        taiyi_fx.open_run(tmp_path)


def test_models_of_one_process_are_parts_of_one_run(tmp_path):
    nets = {
        name: taiyi_fx.instrument(
            torch.nn.Sequential(torch.nn.Linear(4, 2)),
            {"0": ["WeightNorm"]},
            run=tmp_path,
            part=name,
        )
        for name in ("critic", "generator")
    }
    for net in nets.values():
        net(torch.ones(2, 4)).sum().backward()
        net.monitor.track(0)
        net.monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.modules == ["critic.0", "generator.0"]
        assert [entry["module"] for entry in run.config] == ["critic.0", "generator.0"]
        for name, net in nets.items():
            expected = net[0].weight.norm().item()
            assert run.series(f"{name}.0", "WeightNorm").values[0] == pytest.approx(expected)


@both
def test_pages_and_commands_read_it_as_any_other(kind, tmp_path, capsys):
    folder = stages(kind, tmp_path / "run")
    taiyi_fx.report(folder, tmp_path / "page.html")
    assert "rank1" in (tmp_path / "page.html").read_text()
    main(["show", str(folder)])
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("first", "second", "rank1"))


@both
@pytest.mark.parametrize("name", ["", "stage"])
def test_a_scan_is_the_long_table(kind, name, tmp_path):
    with taiyi_fx.open_run(stages(kind, tmp_path, name)) as run:
        found, expected = run.scan().collect(), run.to_numpy()
        assert found.columns == list(expected)
        for column, values in expected.items():
            assert found[column].to_list() == values.tolist()
