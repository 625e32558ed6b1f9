"""The benchmark of GPUs runs on a CPU, and what only a GPU would run is at least called rightly."""

import time
from unittest import mock

import pytest
import torch

from benchmarks.gpu import __main__ as command
from benchmarks.gpu.job import BASE, EACH, MODES, Mode, Row, measured, started
from benchmarks.gpu.models import CASES, TINY
from benchmarks.gpu.table import table
from benchmarks.overhead import memory, rounds

pytestmark = pytest.mark.slow

FEW = Mode((BASE, EACH[0]), {"backend": "aot_eager"})


@pytest.mark.exhaustive
def test_a_compiled_model_is_measured_beside_the_plain_one():
    found = measured(TINY["gpt2"], FEW, "cpu", seconds=0)
    assert not found["failed"]
    assert {row: len(blocks) for row, blocks in found["spent"].items()} == {
        "plain, q1": 3, "taiyi_fx, q1": 3,
    }  # fmt: skip
    assert all(peak > 0 for peak in found["peaks"].values())
    lines = table({("gpt2", "compiled"): found}, "A machine.").splitlines()
    assert lines[-1].startswith("| GPT, 2 layers of 32 | compiled | ")
    assert lines[-1].count("|") == lines[-2].count("|")


@pytest.mark.exhaustive
def test_a_look_at_tiny_models_writes_the_table(tmp_path, capfd):
    file = tmp_path / "folder" / "gpu.md"
    words = ["--device", "cpu", "--quick", "--only", "benchmark", "--to", str(file)]
    assert command.main(words) == 0
    text = file.read_text(encoding="utf-8")
    assert len([line for line in text.splitlines() if "| eager |" in line]) == len(TINY)
    assert "failed" not in text
    assert text in capfd.readouterr().out


def test_what_fails_or_is_late_is_told_and_the_rest_is_measured():
    broken = Row("no such tool", "q1")
    found = measured(TINY["resnet"], Mode((BASE, broken)), "cpu", seconds=0)
    assert found["failed"] == {"no such tool, q1": "KeyError: 'no such tool'"}
    assert list(found["spent"]) == ["plain, q1"]
    late = measured(TINY["resnet"], Mode((BASE, EACH[0])), "cpu", seconds=0, patience=-1)
    assert late["spent"] == {}
    text = table({("resnet", "eager"): late}, "")
    assert "- ResNet, 2 bottlenecks, eager: plain, q1: not reached in time" in text


def test_a_process_that_is_late_is_told():
    (found,) = command.found_of([("gpt2", "eager")], "cpu", end=0.0).values()
    assert found["failed"] == {"plain, q1": "not reached in time"}


@pytest.mark.exhaustive
def test_a_process_that_fails_is_told():
    end = time.monotonic() + 120
    found = command.found_of([("gpt2", "eager"), ("gpt2", "no such mode")], "cpu", end)
    of_one, of_other = found.values()
    assert of_one["spent"]
    assert not of_one["failed"]
    assert of_other["failed"] == {"plain, q1": "its process ended with 2"}


def test_without_a_device_nothing_is_run_and_that_is_said(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert command.main([]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("No CUDA device is seen by torch ")


def test_all_models_and_modes_have_their_turn():
    assert {*command._ALONE, *command._TOGETHER} == {
        (model, mode) for model in CASES for mode in MODES
    }


def test_the_large_models_have_the_usual_sizes():
    with torch.device("meta"):
        sizes = {name: case.build() for name, case in CASES.items()}
    millions = {
        name: round(sum(p.numel() for p in model.parameters()) / 1e6)
        for name, model in sizes.items()
    }
    assert millions == {"gpt12": 163, "resnet50": 26, "gpt24": 406}  # the head's weight is its own


class Device:
    """As much of torch.cuda as is called, with the signatures that it has."""

    def __init__(self, monkeypatch):
        self.calls = []
        for name in ("synchronize", "memory_allocated", "max_memory_allocated"):
            self._replace(monkeypatch, name, getattr(torch.cuda, name))
        self._replace(monkeypatch, "reset_peak_memory_stats", torch.cuda.reset_peak_memory_stats)
        event = mock.create_autospec(torch.cuda.Event)
        event.return_value.elapsed_time.return_value = 2.5  # milliseconds
        monkeypatch.setattr(torch.cuda, "Event", event)

    def _replace(self, monkeypatch, name, function):
        numbers = {"memory_allocated": 100, "max_memory_allocated": 350}
        made = mock.create_autospec(function, return_value=numbers.get(name))
        made.side_effect = lambda *args, **kwargs: self.calls.append(name) or mock.DEFAULT
        monkeypatch.setattr(torch.cuda, name, made)


def test_a_peak_on_a_gpu_is_the_allocators(monkeypatch):
    device = Device(monkeypatch)
    ran = lambda: device.calls.append("run")  # noqa: E731
    assert memory.peak_of(ran, torch.device("cuda", 0)) == 250
    before, after = device.calls[: device.calls.index("run")], device.calls[-2:]
    assert before == ["synchronize", "memory_allocated", "reset_peak_memory_stats"]
    assert after == ["synchronize", "max_memory_allocated"]


def test_time_on_a_gpu_is_that_between_events(monkeypatch):
    device = Device(monkeypatch)
    spent = rounds._on_gpu(lambda: device.calls.append("run"))
    assert device.calls == ["synchronize", "run", "synchronize"]
    assert spent.compute == 2_500_000
    assert spent.wall > 0


@pytest.mark.parametrize("tool", ["plain", "taiyi_fx", "hooks by hand"])
def test_every_tool_computes_in_the_type_of_autocast(tool):
    training = started(TINY["gpt2"], MODES["eager"], Row(tool, "q1"), "cpu")
    types = []
    head = training.watched.model.head
    head.register_forward_hook(lambda module, args, output: types.append(output.dtype))
    training.run_step()
    assert types == [torch.bfloat16]
