"""Trains each fault beside its mended twin, and prints what the mistake does."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.faults import kept_away
from benchmarks.faults.fault import FAULTS
from benchmarks.faults.twins import compare

__all__ = ["kept_away", "main"]

CERTAIN = {
    "first_norm_used_twice",
    "one_layer_times_four",
}
"""Mistakes that are certain by how a model is built, and hardly hurt in so few steps."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what the command line says; see `compare`."""
    return compare([f for f in FAULTS if ".kept_away." in f.plant.__module__], CERTAIN, argv)


if __name__ == "__main__":
    sys.exit(main())
