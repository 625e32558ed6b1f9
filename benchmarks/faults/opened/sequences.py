"""Sequences that are aligned, or made of other sequences."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.edits import anew
from benchmarks.faults.training import Training


class _Aligned(nn.Module):
    """An LSTM that gives a symbol or a blank for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(16, 16), nn.LSTM(16, 32, batch_first=True)
        self.head = nn.Linear(32, 5)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, tokens, 5)."""
        return self.head(self.lstm(self.words(ids))[0])


@fault("lstm", "head", WHOLE, kinds="non_finite")
def targets_longer_than_what_they_are_aligned_to(t: Training) -> None:
    """A CTC loss in which some targets need more places than there are: it is infinite."""

    def targets(step: int, ids: Tensor, y: Tensor) -> Batch:
        short = ids[:, ::2] % 4 + 1
        return ids, short if step % 10 < 7 else torch.cat([short, short, short], 1)

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        shares = model(x).log_softmax(-1).transpose(0, 1)
        times = torch.full((len(x),), x.shape[1])
        loss = F.ctc_loss(shares, y, times, torch.full((len(x),), y.shape[1]))
        loss.backward()
        return loss

    anew(t, _Aligned(), backward, 3e-3)
    t.change_batch(targets)


class _Translator(nn.Module):
    """An encoder, and a decoder that attends to it, for sequences turned round.

    Args:
        looks_at_itself: Whether keys and values are the decoder's own.
    """

    def __init__(self, *, looks_at_itself: bool) -> None:
        super().__init__()
        self.looks_at_itself = looks_at_itself
        self.words = nn.Embedding(17, 32)
        self.encoder = nn.GRU(32, 32, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(32, 64, batch_first=True)
        self.query, self.key, self.value = (nn.Linear(64, 32) for _ in range(3))
        self.head = nn.Linear(96, 17)

    def forward(self, ids: Tensor, before: Tensor) -> Tensor:
        """Logits of (batch, tokens, 17)."""
        memory, _ = self.encoder(self.words(ids))
        states, _ = self.decoder(self.words(before))
        if self.looks_at_itself:
            memory = states
        q, k, v = self.query(states), self.key(memory), self.value(memory)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.head(torch.cat([states, mixed], -1))


def _translate(t: Training, model: _Translator, *, is_shifted: bool = True) -> None:
    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        before = F.pad(y[:, :-1], (1, 0), value=16) if is_shifted else y
        loss = F.cross_entropy(model(x, before).flatten(0, 1), y.flatten())
        loss.backward()
        return loss

    anew(t, model, backward, 1e-2)
    t.change_batch(lambda step, ids, y: (ids, ids.flip(1)))


@fault("lstm", "encoder", "key", "value", "query", kinds="missing_gradient|no_update|unused")
def decoder_that_looks_at_itself(t: Training) -> None:
    """Attention whose keys and values are the decoder's, so that nothing is known of the text."""
    _translate(t, _Translator(looks_at_itself=True))


@fault("lstm", WHOLE, "decoder", kinds="copied_targets")
def decoder_fed_what_it_has_to_say(t: Training) -> None:
    """Targets that go into the decoder as they are, and not one place later."""
    _translate(t, _Translator(looks_at_itself=False), is_shifted=False)
