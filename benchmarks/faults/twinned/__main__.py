"""Prints how much worse each fault makes its training than the mended twin."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase

import torch

from benchmarks.faults import twinned
from benchmarks.faults.fault import FAULTS
from benchmarks.faults.twinned.twin import errors


def main(only: str = "*") -> None:
    """Trains both of each, and prints what they are judged by.

    Args:
        only: A pattern of names.
    """
    torch.set_num_threads(1)
    for fault in FAULTS:
        if fault.plant.__module__.startswith(twinned.__name__) and fnmatchcase(fault.name, only):
            mended, faulty = errors(fault)
            mark = "worse" if not faulty <= 1.2 * mended + 0.02 else "AS GOOD"
            print(f"{mark:8} {fault.label:56} {mended:9.4f} -> {faulty:.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
