"""The kinds of findings that are certain when they are seen twice, however early."""

from __future__ import annotations

from taiyi_fx.findings.rules.structure.slips import SLIP_KINDS

CERTAIN = frozenset(kind.name for kind in SLIP_KINDS).union(
    "batch_axis broadcast class_axis copied_targets dropped_output first_place flat_function "
    "grown_scores held_targets masked_product normalised_samples odd_weights overlapping_fields "
    "own_pairs padded_place padded_targets reads_ahead returned_messages shared_state "
    "shifted_targets softmax_axis squared_mean squashed_loss torn_edges trained_advantage "
    "turned_mask unsquashed_loss weighted_mean".split()
)
"""Those that code shows, the functions of a loss, or what is given to it and to the model.

Numbers mend themselves that look odd in the beginning of a training; these do not.
"""
