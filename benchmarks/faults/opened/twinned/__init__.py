"""Faults that people asked about in public, each with the cause that was found and a mended twin.

Rules had seen none of them when they were measured; importing this registers all. `python -m
benchmarks.faults.opened.twinned` trains each beside its twin, which differs in the mistake alone,
and says what the mistake does.
"""

from benchmarks.faults.opened.twinned import losses, making, networks, pairs, resuming

__all__ = ["losses", "making", "networks", "pairs", "resuming"]
