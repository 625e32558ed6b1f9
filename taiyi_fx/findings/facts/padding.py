"""Padding in what an embedding is given, as autograd's notes of a loss show it."""

from __future__ import annotations

from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import KEEPS, TURNS, Uses, name_of, saved_by
from taiyi_fx.findings.facts.squashed import OF_LOGARITHMS

_TABLE = "Embedding"
_ROWS, _PLACES = 4, 4
"""Sequences and places of each, below which a run of equal tokens may be chance."""
_RUN, _OFTEN = 2, 0.3
"""Places at the end that are one token, and the share of sequences that end so."""
_ELSEWHERE = 0.01
"""The share of the other places that may be this token."""
_LEAST = 0.1
"""Of the targets: so many are no chance."""


class Padding(NamedTuple):
    """The padding of sequences that end in a run of one token, of several lengths.

    Attributes:
        module: The embedding that is given them; empty if it is not known.
        token: The token.
        sequences: The share of the sequences that end so.
        targets: The share of the loss's targets that are this token, and count; 0 if it is not
            known, or below a tenth.
    """

    module: str
    token: int
    sequences: float
    targets: float


def padding_of(uses: Uses) -> Padding | None:
    """The padding of the sequences that a loss depends on; None without one, and of several.

    None after a backward, which frees what autograd has saved.

    Args:
        uses: The functions that made the loss.
    """
    tables = [node for node in uses.nodes if name_of(node) == _TABLE]
    losses = [node for node in uses.nodes if name_of(node) in OF_LOGARITHMS]
    given = [(node, saved_by(node, "indices")) for node in tables]
    if any(indices is None for _, indices in given):
        return None
    padded = [(node, found) for node, indices in given if (found := _of(indices))]
    if len({token for _, (token, _) in padded}) != 1:
        return None
    table, (token, share) = padded[0]  # the last in the model: that of a decoder
    is_one = len(losses) == 1 and _counts_all(losses[0], uses)
    targets = _share_of_targets(losses[0], token) if is_one else 0.0
    return Padding(uses.owner(table), token, share, targets)


def _of(indices: Any) -> tuple[int, float] | None:
    """The token that many sequences end in, and the share of those that do; None without one."""
    if indices.ndim != 2 or indices.shape[0] < _ROWS or indices.shape[1] < _PLACES:
        return None
    token = indices[:, -1].mode().values
    is_token = indices == token
    in_run = is_token.flip(1).cumprod(1).flip(1).bool()
    lengths = in_run.sum(1)
    elsewhere = (is_token & ~in_run).sum() / (~in_run).sum().clamp(min=1)
    share = float((lengths >= _RUN).double().mean())
    varies = bool((lengths != lengths[0]).any())
    is_padding = share >= _OFTEN and varies and float(elsewhere) <= _ELSEWHERE
    return (int(token), share) if is_padding else None


def _counts_all(loss: Any, uses: Uses) -> bool:
    """True for a loss that reduces its targets itself, or whose losses are then reduced as one.

    Whatever else they meet, as a product with a mask, or an index, may leave out padding.
    """
    if loss._saved_reduction:
        return True
    level = [node for node, _ in uses.users[id(loss)]]
    while level and all(name_of(node) in KEEPS | TURNS for node in level):
        level = [user for node in level for user, _ in uses.users[id(node)]]
    return bool(level) and all(name_of(node) in ("Mean", "Sum") for node in level)


def _share_of_targets(loss: Any, token: int) -> float:
    """The share of a loss's targets that are a token, of as many classes as could be tokens."""
    targets, left_out = saved_by(loss, "target"), loss._saved_ignore_index
    if targets is None:
        return 0.0
    targets = targets.flatten()
    left_out = left_out - 2**64 if left_out >= 2**63 else left_out
    kept = targets[targets != left_out]
    weights = saved_by(loss, "weight")
    own = () if weights is None else weights[token : token + 1]  # of none that is no class
    if left_out == token or any(weight == 0 for weight in own) or len(kept) < _ROWS * _PLACES:
        return 0.0
    share = float((kept == token).double().mean())
    return share if share >= _LEAST else 0.0
