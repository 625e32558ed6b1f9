"""Graphviz, where there is one: DOT text becomes a picture."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path


class EngineMissing(RuntimeError):
    """There is nothing to lay a picture out with."""


ADVICE = "pip install 'taiyi-fx[diagram]', or install Graphviz itself"
"""How to get a Graphviz."""


def find_engine() -> str | None:
    """The path of a ``dot``: the system's, or that of graphviz-pure beside this Python."""
    scripts = Path(sysconfig.get_path("scripts"))
    beside = [scripts / "graphviz-pure", scripts / "graphviz-pure.exe"]
    found = shutil.which("dot") or shutil.which("graphviz-pure")
    return found or next((str(path) for path in beside if path.exists()), None)


def render(engine: str, source: str, form: str) -> bytes:
    """A picture of DOT text, as ``"svg"`` or ``"png"``.

    Raises:
        RuntimeError: Graphviz failed; shows what it said.
    """
    command = [engine, f"-T{form}", *(["-Gdpi=144"] if form == "png" else [])]
    done = subprocess.run(command, input=source.encode(), capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Graphviz ({engine}) failed: {done.stderr.decode(errors='replace')}")
    return done.stdout
