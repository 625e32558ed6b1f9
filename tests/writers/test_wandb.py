"""W&B offline: rows read back from the file that it would upload."""

import json
import math
import struct

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.records.record import Record
from taiyi_fx.writers import Batch, Event, WandB
from tests.writers.given import HOSTILE, numbers, run

wandb = pytest.importorskip("wandb")
internal = pytest.importorskip("wandb.proto.wandb_internal_pb2")

BLOCK = 32768


@pytest.fixture
def start(wandb_offline, tmp_path):
    return lambda: wandb.init(project="tests", dir=tmp_path)


def entries(folder):
    """What an offline run's file holds: W&B's own log of records, in blocks as LevelDB has them."""
    wandb.teardown()  # waits until the file is complete
    (file,) = folder.glob("wandb/offline-run-*/*.wandb")
    data, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            entry = internal.Record()
            entry.ParseFromString(whole)
            whole = b""
            yield entry


def rows(folder):
    found = []
    for entry in entries(folder):
        if entry.WhichOneof("record_type") == "history":
            row = {}
            for item in entry.history.item:
                key = (item.key,) if item.key else tuple(item.nested_key)
                row[key if len(key) > 1 else key[0]] = json.loads(item.value_json)
            found.append({k: v for k, v in row.items() if k not in ("_timestamp", "_runtime")})
    return found


def write(writer, *batches):
    writer.open(run())
    for batch in batches:
        writer.write(batch)
    writer.flush()
    writer.close()


def test_a_step_is_a_row_over_its_own_step(start, tmp_path):
    made = start()
    batches = numbers(40, InputMean=1.0, RankMe=math.nan), numbers(50, epoch=1, InputMean=2.0)
    write(WandB(made), *batches, numbers(50, 1, "eval", InputMean=math.inf))
    made.finish()
    first, second, evaluation = rows(tmp_path)
    assert (first["InputMean/fc"], first["taiyi_fx/step"], first["taiyi_fx/epoch"]) == (1, 40, 0)
    assert math.isnan(first["RankMe/fc"])
    assert (second["InputMean/fc"], second["taiyi_fx/step"], second["taiyi_fx/epoch"]) == (2, 50, 1)
    assert evaluation["evaluation/InputMean/fc"] == math.inf
    over = {
        e.metric.glob_name or e.metric.name: e.metric.step_metric
        for e in entries(tmp_path)
        if e.WhichOneof("record_type") == "metric"
    }
    assert over["InputMean/*"] == over["RankMe/*"] == over["evaluation/*"] == "taiyi_fx/step"


def test_what_the_user_logs_is_left_as_it_is(start, tmp_path):
    made = start()
    writer = WandB(made)
    writer.open(run())
    for step in range(3):
        writer.write(numbers(10 * step, InputMean=float(step)))
        made.log({"mine": step})
    writer.close()
    made.finish()
    found = rows(tmp_path)
    assert [row["mine"] for row in found if "mine" in row] == [0, 1, 2]
    assert [row["InputMean/fc"] for row in found if "InputMean/fc" in row] == [0, 1, 2]


def test_without_commit_values_are_added_to_the_users_rows(start, tmp_path):
    made = start()
    writer = WandB(made, commit=False)
    writer.open(run())
    for step in (0, 10, 20):
        made.log({"mine": step}, step=step)
        writer.write(numbers(step, InputMean=float(step)))
    writer.close()
    made.finish()
    for row, step in zip(rows(tmp_path), (0, 10, 20), strict=True):
        found = row["_step"], row["mine"], row["InputMean/fc"], row["taiyi_fx/step"]
        assert found == (step, step, step, step)


def test_tensors_are_histograms_pictures_images_and_events_text(start, tmp_path):
    made = start()
    x = torch.tensor([0.0, 1.0, 1.0, math.nan])
    records = [
        Record(1, "fc", "ForwardInputEigOfCov", x),
        Record(1, "conv", "FeatureMap", torch.rand(4, 5)),
    ]
    told = [Event(1, "warning", "fc", "one"), Event(1, "warning", "", "two")]
    write(WandB(made), Batch(0, records=records, events=told))
    made.finish()
    (row,) = rows(tmp_path)
    assert row["ForwardInputEigOfCov/fc", "_type"] == "histogram"
    counts = row["ForwardInputEigOfCov/fc", "values"]
    assert (sum(counts), counts[0], counts[-1]) == (3, 1, 2)
    assert row["ForwardInputEigOfCov/fc/not finite"] == 1
    assert row["FeatureMap/conv", "_type"] == "image-file"
    assert (row["FeatureMap/conv", "width"], row["FeatureMap/conv", "height"]) == (5, 4)
    assert row["taiyi_fx/warning"] == "fc: one\nthe model: two"


def test_hostile_names_are_logged_apart(start, tmp_path):
    made = start()
    records = [Record(0, name, name, float(i)) for i, name in enumerate(("a*", *HOSTILE))]
    write(WandB(made), Batch(0, records=records))
    made.finish()
    (row,) = rows(tmp_path)
    found = [v for k, v in row.items() if k != "_step" and not k.startswith("taiyi_fx/")]
    assert sorted(found) == list(range(len(records)))


def test_a_run_of_its_own_is_finished(wandb_offline, tmp_path):
    writer = WandB(project="tests", dir=tmp_path)
    write(writer, numbers(0, InputMean=1.0))
    assert wandb.run is None
    assert len(rows(tmp_path)) == 1


def test_a_run_and_how_to_make_one_are_not_both_given():
    with pytest.raises(TypeError, match="a run is given, but project only configures a new one"):
        WandB(object(), project="x")


@pytest.mark.parametrize("given", ["package", "run"])
def test_those_who_come_from_taiyi_show_a_step_when_they_like(start, tmp_path, given):
    made = start()
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"0": ["InputMean", "RankMe"]})
    shown = taiyi_fx.Visualization(model.monitor, wandb if given == "package" else made)
    for step in range(4):
        model(torch.full((3, 2), float(step)))
        model.monitor.track(step)
        if step != 1:
            shown.show(step, {"loss": step})
        else:
            shown.log_ext({"loss": step})
    shown.close()
    model(torch.ones(3, 2))
    model.monitor.track(4)
    model.monitor.close()
    found = rows(tmp_path)
    steps = {r["taiyi_fx/step"]: r["InputMean/0"] for r in found if "InputMean/0" in r}
    assert steps == {0: 0, 2: 2, 3: 3}
    assert [r["loss"] for r in found if "loss" in r] == [0, 1, 2, 3]
    assert wandb.run is None
