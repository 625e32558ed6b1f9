"""Graphviz, where it is installed: found, and run on DOT text."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path


class EngineMissing(RuntimeError):
    """Neither Graphviz nor matplotlib is installed, so no picture can be drawn."""


ADVICE = "pip install 'taiyi-fx[diagram]', or install Graphviz itself"
"""How to install Graphviz."""


def find_engine() -> str | None:
    """The path of the system's ``dot``, or of graphviz-pure; None if neither is installed."""
    scripts = Path(sysconfig.get_path("scripts"))
    beside = [scripts / "graphviz-pure", scripts / "graphviz-pure.exe"]
    found = shutil.which("dot") or shutil.which("graphviz-pure")
    return found or next((str(path) for path in beside if path.exists()), None)


def render(engine: str, source: str, form: str) -> bytes:
    """A picture of DOT text, as ``"svg"`` or ``"png"``.

    Raises:
        RuntimeError: Graphviz failed; the text has its message.
    """
    command = [engine, f"-T{form}", *(["-Gdpi=144"] if form == "png" else [])]
    done = subprocess.run(command, input=source.encode(), capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Graphviz ({engine}) failed: {done.stderr.decode(errors='replace')}")
    return done.stdout
