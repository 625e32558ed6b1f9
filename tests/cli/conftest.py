"""A model, configurations and runs to give to the command line."""

import itertools
import webbrowser

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.cli import main
from taiyi_fx.records.record import Event, Record
from taiyi_fx.writers import Batch, EpochEnd
from tests.cli.given_runs import VALUES
from tests.writers.runs import FORMATS, numbers, opened, trained

_NUMBERS = itertools.count()


@pytest.fixture
def cli(capsys):
    """Runs a command line; returns the exit code, and what went to both outputs."""

    def run(*arguments):
        code = main([str(a) for a in arguments])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A module in the working directory, of a new name each time, as Python keeps modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # and takes it away again
    name = f"models_of_test_{next(_NUMBERS)}"
    (tmp_path / f"{name}.py").write_text(
        """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        return torch.relu(self.norm(self.fc(x)))

def net(width=4, name="none"):
    return nn.Sequential(Block(width), Block(width), nn.Linear(width, 2))

made = net()
number = 3

def wrong():
    return "text"

def leaving():
    raise SystemExit(0)

def broken():
    raise RuntimeError("no weights here")
""",
        encoding="utf-8",
    )
    return name


@pytest.fixture
def write(tmp_path):
    """Writes a file; returns its name."""

    def made(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return name

    return made


def recorded(folder, steps=range(4), **logged):
    """A run of a small model."""
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    cfg = {"Linear": ["WeightNorm", ["InputMean", "linear(2, 0)"]], "2": ["ForwardOutput"]}
    probed = taiyi_fx.instrument(model, cfg, run=folder)
    trained(probed, steps, **logged).monitor.close()
    return folder


@pytest.fixture
def shown(monkeypatch):
    """Addresses that were given to a browser."""
    addresses = []
    monkeypatch.setattr(webbrowser, "open", addresses.append)
    return addresses


@pytest.fixture(params=FORMATS)
def run(request, tmp_path):
    """Module a with q at five steps, in training and once in evaluation; b with tensors."""
    writer = opened(request.param, tmp_path / "run")
    for step, value in enumerate(VALUES):
        told = [Event(step, "warning", "a", "too hot")] if step == 1 else []
        writer.write(numbers(step, [value], epoch=step // 3, events=told))
        writer.write(Batch(step // 3, records=[Record(step, "b", "t", torch.full((2, 3), step))]))
    writer.write(numbers(4, [0.5], mode="eval", ended=EpochEnd(0, 0, ())))
    writer.close()
    return tmp_path / "run"
