"""MLflow in a sqlite file."""

import math

import pytest
import torch

from taiyi_fx.records.record import Record
from taiyi_fx.writers import Batch, MLflow
from tests.writers.given import HOSTILE, numbers, run

mlflow = pytest.importorskip("mlflow")

# What MLflow asks of sqlalchemy 2.1.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload``:DeprecationWarning")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow")
    uri = f"sqlite:///{folder}/runs.db"
    client = mlflow.MlflowClient(tracking_uri=uri)
    client.create_experiment("taiyi_fx", artifact_location=str(folder / "artifacts"))
    return client, uri


def write(place, *batches):
    """Writes to a new run, and reads its metrics back."""
    client, uri = place
    writer = MLflow(tracking_uri=uri)
    writer.open(run())
    for batch in batches:
        writer.write(batch)
    writer.flush()
    writer.close()
    experiment = client.get_experiment_by_name("taiyi_fx")
    (last, *_) = client.search_runs([experiment.experiment_id], order_by=["start_time DESC"])
    return last


def history(place, made, name):
    client, _ = place
    return {m.step: m.value for m in client.get_metric_history(made.info.run_id, name)}


def test_numbers_are_metrics_at_their_steps(place):
    made = write(
        place,
        numbers(3, InputMean=1.5),
        numbers(4, InputMean=math.nan),
        numbers(4, 0, "eval", InputMean=2.0),
    )
    found = history(place, made, "InputMean/fc")
    assert found[3] == 1.5
    assert math.isnan(found[4])
    assert history(place, made, "evaluation/InputMean/fc") == {4: 2.0}
    assert made.info.status == "FINISHED"


def test_more_metrics_than_mlflow_takes_at_once(place):
    records = [Record(0, f"layer{i}", "InputMean", float(i)) for i in range(2100)]
    made = write(place, Batch(0, records=records))
    assert len(made.data.metrics) == 2100
    assert made.data.metrics["InputMean/layer2099"] == 2099


def test_hostile_names_are_logged_apart(place):
    pairs = [(m, q) for m in HOSTILE for q in HOSTILE if m]
    records = [Record(0, m, q, float(i)) for i, (m, q) in enumerate(pairs)]
    made = write(place, Batch(0, records=records))
    assert sorted(made.data.metrics.values()) == list(range(len(records)))


def test_a_given_run_is_not_ended_and_has_pictures_and_what_is_known(place):
    client, uri = place
    experiment = client.get_experiment_by_name("taiyi_fx").experiment_id
    made = client.create_run(experiment)
    writer = MLflow(made.info.run_id, tracking_uri=uri)
    writer.open(run())
    picture = Record(2, "conv", "FeatureMap", torch.rand(4, 5))
    vector = Record(2, "fc", "ForwardInputEigOfCov", torch.rand(4))
    writer.write(Batch(0, records=[picture, vector]))
    writer.flush()
    writer.close()
    assert client.get_run(made.info.run_id).info.status == "RUNNING"
    assert client.get_run(made.info.run_id).data.metrics == {}
    files = [f.path for f in client.list_artifacts(made.info.run_id, "images")]
    assert any("FeatureMap~conv" in name and "step+2" in name for name in files)
    names = [f.path for f in client.list_artifacts(made.info.run_id)]
    assert "taiyi_fx.json" in names
