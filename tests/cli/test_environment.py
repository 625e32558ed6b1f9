"""What an installation has, lacks, or has broken."""

import importlib.metadata
import json
import re
from pathlib import Path

import pytest
import torch

from taiyi_fx.cli.environment import EXTRAS

PROJECT = Path(__file__).parent.parent.parent / "pyproject.toml"


OF_DEVELOPERS = {"docs", "examples", "test", "writers-test", "trainers-test", "zoo", "bench", "dev"}


def states(out):
    return {f["what"]: f["state"] for f in json.loads(out)}


def test_each_extra_has_words():
    section = PROJECT.read_text().partition("[project.optional-dependencies]\n")[2]
    extras = set(re.findall(r"^([\w-]+) = ", section.partition("\n[")[0], re.MULTILINE))
    assert extras - OF_DEVELOPERS <= set(EXTRAS)


def test_what_is_optional_and_not_there_is_missing_not_broken(cli, monkeypatch):
    version = importlib.metadata.version

    def without(name):
        if name in ("pandas", "pyyaml"):
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr("importlib.metadata.version", without)
    monkeypatch.setattr("taiyi_fx.cli.environment._imported", lambda found, module: found)
    monkeypatch.setattr("taiyi_fx.cli.environment.find_engine", lambda: None)
    monkeypatch.setenv("CXX", "no-such-compiler")
    code, out, _ = cli("doctor", "--json")
    found = states(out)
    assert code == 0
    assert found["pandas"] == found["pyyaml"] == found["Graphviz"] == "missing"
    assert found["torch.compile"] == "missing"
    assert found["polars"] == "ok"
    texts = {f["what"]: f["text"] for f in json.loads(out)}
    assert texts["pandas"] == (
        "not installed: pip install 'taiyi-fx[pandas]' (for runs as pandas tables)"
    )


def test_what_is_needed_and_not_there_is_broken(cli, monkeypatch):
    version = importlib.metadata.version

    def without(name):
        if name == "networkx":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr("importlib.metadata.version", without)
    code, out, _ = cli("doctor", "--json")
    assert code == 1
    assert states(out)["networkx"] == "broken"


def test_a_trainer_whose_package_does_not_fit_the_others_is_broken(cli, monkeypatch):
    def imported(name):
        if name == "taiyi_fx.trainers.accelerate":
            raise RuntimeError("operator torchvision::nms does not exist\nand more")

    monkeypatch.setattr("importlib.import_module", imported)
    code, out, _ = cli("doctor", "--json")
    told = {f["what"]: f["text"] for f in json.loads(out)}
    assert (code, states(out)["accelerate"]) == (1, "broken")
    assert told["accelerate"].endswith(
        "cannot be imported: RuntimeError: operator torchvision::nms does not exist "
        "(for taiyi_fx.trainers.accelerate)"
    )


def test_a_package_that_is_only_imported_is_told(cli, monkeypatch):
    def nothing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    for asked in ("version", "requires"):
        monkeypatch.setattr(f"importlib.metadata.{asked}", nothing)
    code, out, _ = cli("doctor", "--json")
    told = {f["what"]: f["text"] for f in json.loads(out)}
    assert code == 0
    assert states(out)["taiyi-fx"] == "missing"
    assert "imported without being installed" in told["taiyi-fx"]
    assert told["self-test"].startswith("a probed model computes what the plain one does")


@pytest.mark.parametrize("devices", [0, 2])
def test_devices_are_told(cli, monkeypatch, devices):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: f"GPU {i}")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: devices > 0)
    found = {f["what"]: f["text"] for f in json.loads(cli("doctor", "--json")[1])}
    if devices:
        assert found["CUDA"] == "13.0: GPU 0, GPU 1"
        assert found["MPS"] == "available"
    else:
        assert found["CUDA"] == "no device seen by this torch for CUDA 13.0: models run on the CPU"
