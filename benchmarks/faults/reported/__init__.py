"""Faults as people report them, written by those who set thresholds: none is held out."""

from __future__ import annotations

from benchmarks.faults.reported import forwards, losses, optimizers, starts, writes

__all__ = ["forwards", "losses", "optimizers", "starts", "writes"]
