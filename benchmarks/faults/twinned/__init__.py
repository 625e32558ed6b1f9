"""Faults with a mended twin each, as people report them; importing this registers all.

Each function plants its fault, or sets the same training up without it where `is_mended`, and
returns what both are judged by: `python -m benchmarks.faults.twinned` compares them.
"""

from benchmarks.faults.twinned import (
    decisions,
    generators,
    graphs,
    language,
    sequences,
    speech,
    tables,
    vision,
)

__all__ = [
    "decisions",
    "generators",
    "graphs",
    "language",
    "sequences",
    "speech",
    "tables",
    "vision",
]
