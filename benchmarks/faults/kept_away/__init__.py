"""Faults that people asked about in public, each with the cause that was found.

Nobody who makes rules may read them; importing this registers all. `python -m
benchmarks.faults.kept_away` trains each beside its mended twin, which differs in the mistake
alone, and says what the mistake does. Names after a docstring such as ``owner/name#6`` are those
of threads on GitHub.
"""

from benchmarks.faults.kept_away import (
    classifiers,
    criteria,
    data_feeding,
    deciding,
    making,
    networks_of_nodes,
    recurrence,
    similar_pairs,
    special,
    steps,
    transformers,
)

__all__ = [
    "classifiers",
    "criteria",
    "data_feeding",
    "deciding",
    "making",
    "networks_of_nodes",
    "recurrence",
    "similar_pairs",
    "special",
    "steps",
    "transformers",
]
