"""Shapes that fit by chance: wrong axes, views, and operands that broadcast."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.edits import NEIGHBOURS, anew, put
from benchmarks.faults.training import Training


@fault("mlp", *NEIGHBOURS, kinds="batch_axis|broadcast")
def deviation_without_its_axis_kept(t: Training) -> None:
    """Rows over their deviations, which stand along the features: there are as many of both."""
    t.change_batch(lambda step, x, y: (x[:32], y[:32]))
    put(t, lambda step, x: (x - x.mean(1)) / (x.std(1) + 1e-3))


@fault("mlp", *NEIGHBOURS, kinds="batch_axis|growing")
def summed_along_the_samples(t: Training) -> None:
    """A running sum over the first axis, where that of the features was meant."""
    put(t, lambda step, x: x.cumsum(0))


@fault("lstm", "{middle}", "{last}", kinds="batch_axis|plateau")
def states_viewed_as_time_first(t: Training) -> None:
    """States of samples and time, viewed as of time and samples to get at the last."""

    def forward(self, old, ids: Tensor) -> Tensor:
        states, _ = self.lstm(self.words(ids))
        return self.head(states.reshape(ids.shape[1], len(ids), -1)[-1])

    change_class(t.model, forward)


class _Stacked(nn.Module):
    """Two layers of GRU whose last states go to the head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.gru = nn.Embedding(16, 16), nn.GRU(16, 24, 2, batch_first=True)
        self.head = nn.Linear(48, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        _, last = self.gru(self.words(ids))
        return self.head(last.view(len(ids), -1))


@fault("lstm", "gru", "head", kinds="batch_axis|plateau")
def last_states_of_layers_viewed_as_samples(t: Training) -> None:
    """Last states of (layers, samples, width) that are viewed as (samples, width of all)."""
    anew(t, _Stacked(), rate=1e-2)


@fault("lstm", "{middle}", "{last}", WHOLE, kinds="batch_axis|plateau")
def rows_left_in_the_order_of_their_lengths(t: Training) -> None:
    """Sequences that are sorted before they are packed, and not put back."""

    def forward(self, old, ids: Tensor) -> Tensor:
        lengths = (ids > 3).sum(1)
        states, _ = self.lstm(self.words(ids[lengths.argsort(descending=True)]))
        return self.head(states[:, -1])

    change_class(t.model, forward)


@fault("mlp cnn", *NEIGHBOURS, kinds="detached|missing_gradient|no_update")
def choice_without_a_gradient(t: Training) -> None:
    """A choice of the largest feature as ones and zeros, through which nothing comes back."""

    def choose(step: int, x: Tensor) -> Tensor:
        chosen = F.one_hot(x.argmax(1), x.shape[1]).float()
        return chosen if x.dim() == 2 else chosen.permute(0, 3, 1, 2).contiguous()

    put(t, choose)


@fault("cnn", "layers.4*", "{last}", kinds="plateau|zero_gradient")
def norm_that_takes_away_what_is_averaged(t: Training) -> None:
    """A norm over each image's own pixels, right before their mean is taken."""

    def normalise(step: int, x: Tensor) -> Tensor:
        return F.instance_norm(x)

    t.names = {**t.names, "stage": "layers.4", "next": "head"}
    put(t, normalise)


@fault("mlp lstm", *NEIGHBOURS, kinds="detached|plateau|missing_gradient|no_update")
def features_of_the_first_batch(t: Training) -> None:
    """A cache of features whose key does not tell batches apart."""
    kept: list[Tensor] = []

    def recall(x: Tensor) -> Tensor:
        kept.extend([x.detach()] * (not kept))
        return kept[0]

    if "stage" in t.names:
        put(t, lambda step, x: recall(x))
        return
    t.names = {**t.names, "stage": "words", "next": "lstm"}
    change_class(t.module("stage"), lambda self, old, ids: recall(old(ids)))


@fault("mlp gpt", *NEIGHBOURS, kinds="divergence")
def gradient_turned_round_between(t: Training) -> None:
    """A reversal of gradients that was meant for the head of another task."""
    put(t, lambda step, x: 2 * x.detach() - x)


@fault("cnn", "{last}", WHOLE, kinds="batch_axis|softmax_axis|class_axis|plateau")
def logits_normalised_over_the_samples(t: Training) -> None:
    """Logits made unit vectors along the first axis, so that each is small."""
    change_class(t.model, lambda self, old, x: F.normalize(old(x), dim=0))


@fault("cnn resnet", "{last}", kinds="plateau|rank|softmax_axis")
def softmax_over_the_pooled_features(t: Training) -> None:
    """Features that a softmax has made shares before the head gets them."""
    change_class(t.module("last"), lambda self, old, x: old(x.softmax(-1)))
