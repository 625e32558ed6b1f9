"""Taiyi's way to W&B, with a package that only notes what it is given."""

from types import SimpleNamespace

import pytest

from taiyi_fx.writers import wandb
from taiyi_fx.writers.visualization import Visualization
from tests.writers.given import numbers, run


class Notes:
    """Stands for W&B and for a run of it."""

    def __init__(self):
        self.rows = []
        self.is_finished = False

    def log(self, row, **_):
        self.rows.append(row)

    def define_metric(self, *_, **__): ...

    def finish(self):
        self.is_finished = True


class Recording:
    """Stands for a monitor."""

    def add_writer(self, writer):
        self.writer = writer
        writer.open(run())

    def flush(self): ...


@pytest.fixture
def shown(monkeypatch):
    monkeypatch.setattr(wandb, "import_optional", lambda *_: SimpleNamespace())
    monitor, notes = Recording(), Notes()
    return Visualization(monitor, notes), monitor.writer, notes


def steps(notes):
    return [row["taiyi_fx/step"] for row in notes.rows if "taiyi_fx/step" in row]


def test_a_step_is_logged_when_it_is_shown_and_earlier_ones_are_forgotten(shown):
    visualization, writer, notes = shown
    for step in range(4):
        writer.write(numbers(step, InputMean=1.0))
    assert notes.rows == []
    visualization.show(2)
    visualization.show(1)
    visualization.show(3)
    assert steps(notes) == [2, 3]


def test_values_of_ones_own_are_logged_as_they_are(shown):
    visualization, _, notes = shown
    visualization.show(0, {"loss": 0.5})
    assert notes.rows == [{"loss": 0.5}]


def test_nothing_is_logged_after_the_end(shown):
    visualization, writer, notes = shown
    writer.write(numbers(0, InputMean=1.0))
    visualization.close()
    writer.write(numbers(1, InputMean=1.0))
    visualization.show(0)
    visualization.show(1)
    assert notes.is_finished
    assert notes.rows == []
