"""Trains each fault beside its mended twin, and prints what the mistake does."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.faults.fault import FAULTS
from benchmarks.faults.opened import twinned
from benchmarks.faults.twins import compare

__all__ = ["main", "twinned"]

CERTAIN = {
    "gate_behind_an_argmax",
    "size_of_the_batch_as_the_time",
}
"""Mistakes that are certain by how a model is built, and hardly hurt in so few steps."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what the command line says; see `compare`."""
    return compare([f for f in FAULTS if ".twinned." in f.plant.__module__], CERTAIN, argv)


if __name__ == "__main__":
    sys.exit(main())
