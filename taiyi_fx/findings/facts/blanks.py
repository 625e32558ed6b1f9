"""Targets of a connectionist temporal classification (CTC) that are its blank."""

from __future__ import annotations

from typing import Any

from taiyi_fx.findings.facts.autograd import Uses, is_at_hand, name_of, saved_by

_CTC = "CtcLoss"


def blank_targets(uses: Uses) -> float:
    """The share of a CTC loss's targets that are its blank, which stands for no label at all.

    What lies behind the length of a target is padding, whatever it is. 0 without such a loss, and
    after its backward.

    Args:
        uses: The functions that made the loss.
    """
    return max((_share(node) for node in uses.nodes if name_of(node) == _CTC), default=0.0)


def _share(node: Any) -> float:
    targets = saved_by(node, "targets")
    if targets is None or not is_at_hand(node, "target_lengths"):
        return 0.0
    lengths = [int(n) for n in node._saved_target_lengths]
    rows, ends = (targets, lengths) if targets.ndim == 2 else ([targets], [sum(lengths)])
    parts = [row[:end] for row, end in zip(rows, ends, strict=False)]
    blanks = sum(int((part == node._saved_blank).sum()) for part in parts)
    return blanks / max(sum(lengths), 1)
