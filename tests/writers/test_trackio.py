"""trackio, in a folder of its own."""

import atexit
import math
import os
import shutil
import tempfile

import pytest
import torch

from taiyi_fx.records.record import Record
from taiyi_fx.writers import Batch, Trackio
from tests.writers.given import HOSTILE, numbers, run

# trackio looks for its folder when it is imported.
os.environ["TRACKIO_DIR"] = tempfile.mkdtemp()
atexit.register(shutil.rmtree, os.environ["TRACKIO_DIR"])
trackio = pytest.importorskip("trackio")
storage = pytest.importorskip("trackio.sqlite_storage")


@pytest.fixture
def written(request):
    def write(*batches):
        project, quiet = request.node.name, {"auto_log_cpu": False, "auto_log_gpu": False}
        writer = Trackio(project=project, name="one", embed=False, **quiet)
        writer.open(run())
        for batch in batches:
            writer.write(batch)
        writer.flush()
        writer.close()
        return storage.SQLiteStorage.get_logs(project, "one")

    return write


def test_a_step_is_a_row_at_its_step(written):
    first, second, evaluation = written(
        numbers(4, InputMean=1.0, RankMe=math.nan),
        numbers(8, 1, InputMean=math.inf),
        numbers(8, 1, "eval", InputMean=2.0),
    )
    assert (first["step"], first["InputMean/fc"], first["taiyi_fx/epoch"]) == (4, 1.0, 0)
    assert math.isnan(first["RankMe/fc"])
    assert (second["step"], second["InputMean/fc"]) == (8, math.inf)
    assert evaluation["evaluation/InputMean/fc"] == 2.0


def test_tensors_are_histograms_and_pictures_images(written):
    x = torch.tensor([0.0, 1.0, 1.0, math.nan])
    (row,) = written(
        Batch(
            0,
            records=[
                Record(1, "fc", "ForwardInputEigOfCov", x),
                Record(1, "conv", "FeatureMap", torch.rand(4, 5)),
            ],
        )
    )
    assert row["ForwardInputEigOfCov/fc"]["_type"] == "trackio.histogram"
    assert sum(row["ForwardInputEigOfCov/fc"]["values"]) == 3
    assert row["ForwardInputEigOfCov/fc/not finite"] == 1
    assert row["FeatureMap/conv"]["_type"] == "trackio.image"


def test_hostile_names_are_logged_apart(written):
    records = [Record(0, name, name, i + 0.5) for i, name in enumerate(HOSTILE)]
    (row,) = written(Batch(0, records=records))
    found = [v for v in row.values() if isinstance(v, float) and v % 1]
    assert sorted(found) == [i + 0.5 for i in range(len(HOSTILE))]


def test_a_run_is_given_or_made():
    with pytest.raises(TypeError, match="a run needs a project"):
        Trackio()
    with pytest.raises(TypeError, match="a run is given, but project only configures a new one"):
        Trackio(object(), project="x")
