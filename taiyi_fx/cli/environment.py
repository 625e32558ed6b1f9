"""The environment: versions, extras, devices, and a self-test of a small model."""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from taiyi_fx.cli.self_test import self_test
from taiyi_fx.pictures.diagram.engines import find_engine
from taiyi_fx.version import __version__


class Checked(NamedTuple):
    """One item of the doctor's list.

    Attributes:
        state: ``"ok"``, ``"missing"`` for an optional part that is not installed, or ``"broken"``.
        what: The thing that was checked.
        text: The finding, and what to do about it.
    """

    state: Literal["ok", "missing", "broken"]
    what: str
    text: str


EXTRAS = {
    "accelerate": "taiyi_fx.trainers.accelerate",
    "diagram": "pictures of diagrams",
    "figures": "pictures of runs",
    "ignite": "taiyi_fx.trainers.ignite",
    "lightning": "taiyi_fx.trainers.lightning",
    "live": "a live table in the terminal",
    "mlflow": "records to MLflow",
    "pandas": "runs as pandas tables",
    "parquet": "runs in Parquet",
    "plotly": "surfaces",
    "polars": "runs as polars tables",
    "tensorboard": "records to TensorBoard",
    "testing": "taiyi_fx.testing, which proves quantities right",
    "toml": "configurations in TOML",
    "trackio": "records to trackio",
    "transformers": "taiyi_fx.trainers.huggingface",
    "wandb": "records to W&B",
    "yaml": "configurations in YAML",
}
"""The purpose of each extra."""
_OURS = "taiyi_fx."


def checked_environment() -> list[Checked]:
    """All that the doctor checks, in order; takes a few seconds."""
    found = [Checked("ok", "python", platform.python_version()), *_required(), *_extras()]
    return [*found, _graphviz(), *_devices(), _compiler(), *_self_test()]


def _required() -> Iterator[Checked]:
    try:
        metadata.version("taiyi-fx")
        yield Checked("ok", "taiyi-fx", __version__)
    except metadata.PackageNotFoundError:
        text = f"{__version__}, imported without being installed: what it needs is not looked at"
        yield Checked("missing", "taiyi-fx", text)
    for requirement in _requirements():
        if "extra ==" not in requirement:
            yield _installed(_distribution(requirement), "broken", "taiyi-fx")


def _extras() -> Iterator[Checked]:
    for requirement in _requirements():
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        name = _distribution(requirement)
        if extra and extra[1] in EXTRAS and name != "taiyi-fx" and _applies(requirement):
            purpose = EXTRAS[extra[1]]
            found = _installed(name, "missing", f"taiyi-fx[{extra[1]}]")
            if found.state == "ok" and purpose.startswith(_OURS):
                found = _imported(found, purpose.partition(",")[0])
            yield found._replace(text=f"{found.text} (for {purpose})")


def _imported(found: Checked, module: str) -> Checked:
    """The same, or that it is broken: a package that is installed may not fit the others."""
    try:
        importlib.import_module(module)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is broken
        why = (str(error).splitlines() or [""])[0]
        text = f"{found.text} cannot be imported: {type(error).__name__}: {why}"
        return found._replace(state="broken", text=text)
    return found


def _requirements() -> list[str]:
    try:
        return metadata.requires("taiyi-fx") or []
    except metadata.PackageNotFoundError:
        return []


def _applies(requirement: str) -> bool:
    # tomli, which newer versions of Python have in themselves.
    older = re.search(r"python_version < ['\"]3\.(\d+)['\"]", requirement)
    return older is None or int(platform.python_version_tuple()[1]) < int(older[1])


def _distribution(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _installed(name: str, otherwise: Literal["missing", "broken"], install: str) -> Checked:
    try:
        return Checked("ok", name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Checked(otherwise, name, f"not installed: pip install '{install}'")


def _graphviz() -> Checked:
    engine = find_engine()
    if engine is None:
        return Checked(
            "missing",
            "Graphviz",
            "for better .svg and .png diagrams: pip install 'taiyi-fx[diagram]'",
        )
    return Checked("ok", "Graphviz", Path(engine).stem)


def _devices() -> Iterator[Checked]:
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        yield Checked("ok", "CUDA", f"{torch.version.cuda}: {', '.join(names)}")
    else:
        built = torch.version.cuda
        why = f"no device seen by this torch for CUDA {built}" if built else "torch without CUDA"
        yield Checked("missing", "CUDA", f"{why}: models run on the CPU")
    if torch.backends.mps.is_available():
        yield Checked("ok", "MPS", "available")
    elif platform.system() == "Darwin":
        yield Checked("missing", "MPS", "not available: models run on the CPU")


def _compiler() -> Checked:
    named = os.environ.get("CXX")
    candidates = [named] if named else ["c++", "g++", "clang++", "cl"]
    found = next((name for name in candidates if shutil.which(name)), None)
    if found is None:
        text = "no C++ compiler, which torch.compile needs on the CPU: install g++ or set CXX"
        return Checked("missing", "torch.compile", text)
    return Checked("ok", "torch.compile", f"C++ compiler {Path(found).name}")


def _self_test() -> Iterator[Checked]:
    try:
        problems = self_test()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is broken
        problems = [f"{type(error).__name__}: {error}"]
    for problem in problems:
        yield Checked("broken", "self-test", problem)
    if not problems:
        text = "a probed model computes what the plain one does, its numbers are those of float64"
        yield Checked("ok", "self-test", text)
