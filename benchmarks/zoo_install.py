"""Installs the packages of the zoo's family of many libraries; tells which can't be had.

Each list is installed in one go, and a package at a time where that fails, so that one that is not
to be had costs its own models and nothing else: the zoo skips them and says so.

    python -m benchmarks.zoo_install
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_LISTS = _ROOT / "benchmarks" / "zoo_models" / "libraries"


def main() -> None:
    """Installs both lists."""
    failed = [
        *install(names(_LISTS / "needed.txt")),
        # Many ask for a torch, or for versions of others, that their models don't need.
        *install(names(_LISTS / "packages.txt"), "--no-deps"),
    ]
    for name in failed:
        print(f"not installed, and its models will be skipped: {name}")
    _drop_broken_binary()


def names(path: Path) -> list[str]:
    """The lines of a list, without comments."""
    lines = (line.partition("#")[0].strip() for line in path.read_text("utf-8").splitlines())
    return [line for line in lines if line]


def install(wanted: Sequence[str], *options: str) -> list[str]:
    """Installs packages; those that can't be installed are returned."""
    if _pip(wanted, options):
        return []
    return [name for name in wanted if not _pip([name], options)]


def _pip(wanted: Sequence[str], options: Sequence[str]) -> bool:
    constraints = str(_ROOT / "constraints.txt")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--constraint", constraints]
    done = subprocess.run([*command, *options, *wanted], capture_output=True, text=True)
    if done.returncode and len(wanted) == 1:
        print(done.stderr.strip())
    return not done.returncode


def _drop_broken_binary() -> None:
    """Takes out torchaudio's binary if it is of another torch: its models do without it.

    It would break whatever imports torchaudio, transformers for one.
    """
    found = importlib.util.find_spec("torchaudio")
    if found is None or found.origin is None or _imports("torchaudio"):
        return
    for binary in (Path(found.origin).parent / "lib").glob("*.so"):
        binary.unlink()
    print("torchaudio: its binary is of another torch and was taken out")


def _imports(name: str) -> bool:
    done = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True)
    return not done.returncode


if __name__ == "__main__":
    main()
