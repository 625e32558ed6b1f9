"""Records to MLflow: numbers as metrics, pictures as images."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from taiyi_fx.quantities.stock.images import IMAGES
from taiyi_fx.records.record import Record
from taiyi_fx.writers.import_optional import import_optional
from taiyi_fx.writers.names import Tags, safe
from taiyi_fx.writers.png import pixels
from taiyi_fx.writers.protocol import Batch, RunInfo
from taiyi_fx.writers.values import as_image, number

_MOST_METRICS = 1000
"""The most metrics that MLflow takes at once."""
_LONGEST = 250
_ALLOWED = r"A-Za-z0-9_.\- "


class MLflow:
    """Logs numbers and pictures to a run of MLflow; other tensors are left out.

    Names are ``quantity/module``, and ``evaluation/quantity/module`` in evaluation mode; in one
    with characters that MLflow does not allow, ``_`` replaces them and a hash ends the part.
    MLflow keeps Inf as the largest number, and takes some 0.2 ms a number in a SQLite file. The
    model, versions, seed and configuration are its artifact ``taiyi_fx.json``.

    Args:
        run_id: A run; by default the active one, or else a new one, which `close` then ends.
        tracking_uri: Where the run is, such as ``"sqlite:///mlflow.db"``; by default MLflow's own
            setting.
        experiment: The name of the experiment that a new run belongs to.
        images: The quantities whose tensors of two axes are pictures.
    """

    def __init__(
        self,
        run_id: str | None = None,
        *,
        tracking_uri: str | None = None,
        experiment: str = "taiyi_fx",
        images: Collection[str] = IMAGES,
    ) -> None:
        self._id = run_id
        self._uri = tracking_uri
        self._experiment = experiment
        self._images = frozenset(images)
        self._is_own = False
        self._waiting: list[Any] = []

    def open(self, run: RunInfo) -> None:
        """Finds or makes the run.

        Raises:
            ImportError: MLflow is not installed.
        """
        package = import_optional("mlflow", "mlflow")
        self._metric = import_optional("mlflow.entities", "mlflow").Metric
        self._client = package.MlflowClient(tracking_uri=self._uri)
        if self._id is None:
            active = package.active_run()
            self._is_own = active is None
            self._id = self._new_run() if active is None else active.info.run_id
        self._tags = Tags(run)
        facts = {"model": run.model, "versions": run.versions, "seed": run.seed}
        self._client.log_dict(self._id, {**facts, "config": list(run.config)}, "taiyi_fx.json")

    def write(self, batch: Batch) -> None:
        """Adds numbers, which wait for the next flush, and logs pictures."""
        now = int(time.time() * 1000)
        for record in batch:
            value, name = number(record.value), self._name(record)
            picture = as_image(record, self._images)
            if value is not None:
                self._waiting.append(self._metric(name, float(value), now, record.step))
            elif picture is not None:
                image = pixels(picture).numpy()
                self._client.log_image(self._id, image, key=name, step=record.step, timestamp=now)

    def flush(self) -> None:
        """Logs the waiting numbers."""
        while self._waiting:
            self._client.log_batch(self._id, metrics=self._waiting[:_MOST_METRICS])
            del self._waiting[:_MOST_METRICS]

    def close(self) -> None:
        """Ends the run, if the writer made it."""
        if self._is_own:
            self._client.set_terminated(self._id)

    def _new_run(self) -> str:
        found = self._client.get_experiment_by_name(self._experiment)
        made = found.experiment_id if found else self._client.create_experiment(self._experiment)
        return self._client.create_run(made).info.run_id

    def _name(self, record: Record) -> str:
        tag = self._tags.of((record.module, record.quantity), record.mode)
        name = "/".join(safe(part, _ALLOWED) for part in tag.split("/"))
        return name if len(name) <= _LONGEST else safe(tag, _ALLOWED, _LONGEST)
