"""Faults of data: its order, its scale, its labels, and what is done to it on the way."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.asked.small_tasks import segmentation
from benchmarks.faults.training import Training


def _sorted(t: Training) -> Batch:
    """Samples of sixty batches, in the order of their classes."""
    batches = [t.batch(20_000 + step) for step in range(60)]
    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    order = y.argsort(stable=True)
    return x[order], y[order]


@fault("cnn mlp", WHOLE, "head", kinds="loss|class|order|shuffle|jump|oscill|bias|agree|batch")
def sorted_by_class(t: Training) -> None:
    """Reads a data set class by class, without shuffling it."""
    x, y = _sorted(t)

    def in_order(step: int) -> Batch:
        start = 64 * (step % 60)
        return x[start : start + 64], y[start : start + 64]

    t.batch, t.steps = in_order, 120


@fault("cnn", WHOLE, "head", kinds="loss|class|order|shuffle|jump|oscill|bias|agree|batch")
def shuffled_within_a_small_buffer(t: Training) -> None:
    """Shuffles a sorted data set in a buffer that is much smaller than it."""
    x, y = _sorted(t)

    def from_the_buffer(step: int) -> Batch:
        chosen = torch.randint(640, (64,), generator=torch.Generator().manual_seed(step))
        chosen = (64 * (step % 60) + chosen) % len(x)
        return x[chosen], y[chosen]

    t.batch, t.steps = from_the_buffer, 120


@fault("cnn mlp", WHOLE, kinds="loss|label|plateau|noise|random|memor|overfit|constant")
def labels_of_other_images(t: Training) -> None:
    """Shuffles images and labels each by itself."""
    t.change_batch(lambda step, x, y: (x, y[torch.randperm(len(y))]))


@fault("cnn", WHOLE, "last", kinds="loss|label|plateau|noise|random|target|mask")
def masks_that_are_not_flipped(t: Training) -> None:
    """Flips images for augmentation, and leaves the masks as they are."""
    segmentation(t)
    t.change_batch(lambda step, x, y: (x.flip(3) if step % 2 else x, y))


@fault("mlp cnn levit", WHOLE, "{first}", kinds="input|scale|small|slow|vanish|loss")
def scaled_down_twice(t: Training) -> None:
    """Divides by 255 when images are read, and again before the model gets them."""
    t.change_batch(lambda step, x, y: (x / 255, y))


@fault("mlp levit", WHOLE, "{first}", kinds="input|scale|large|explod|diverg|loss|dead")
def bytes_as_they_are(t: Training) -> None:
    """Feeds values from 0 to 255, which nobody normalised."""
    t.change_batch(lambda step, x, y: ((64 * x + 128).clamp(0, 255).round(), y))


@fault("cnn mlp", WHOLE, "{first}", kinds="input|scale|drift|grow|loss|large|nan|finite|jump")
def normalised_in_place_each_time(t: Training) -> None:
    """Normalises what a cached data set hands out in place, anew whenever it is asked."""
    batch = cache(t.batch)

    def normalised(step: int) -> Batch:
        x, y = batch(step % 8)
        return x.sub_(0.1).div_(0.5), y

    t.batch = normalised


@fault("lstm gpt", WHOLE, "words", kinds="loss|plateau|embedding|token|unused|rare|vocab")
def words_taken_for_unknown(t: Training) -> None:
    """Looks words up in a dictionary of another data set, which has few of them."""
    many = 128 if "attention" in t.names else 16

    def known(ids: Tensor) -> Tensor:
        return torch.where(ids % 4 == many // 16, ids, 1)

    t.change_batch(lambda step, ids, y: (known(ids), y))


@fault("gpt", "words", WHOLE, kinds="embedding|frozen|pretrained|loss|update|jump")
def vectors_of_the_word_before(t: Training) -> None:
    """Loads vectors of words one row too low, and freezes them."""
    for step in range(150):
        t.backward(t.model, *t.batch(10_000 + step))
        t.optimizer.step()
        t.optimizer.zero_grad()
    t.optimizer.state.clear()
    words: nn.Embedding = t.module("first")
    words.weight.data.copy_(words.weight.data.roll(1, 0))
    words.requires_grad_(False)


@fault("mlp", WHOLE, "{first}", kinds="nan|finite|input|loss|inf|data")
def constant_feature_divided_by_its_deviation(t: Training) -> None:
    """Standardises each feature of a batch, of which one is the same for all rows."""

    def standardised(step: int, x: Tensor, y: Tensor) -> Batch:
        x[:, 3] = 2.0
        return (x - x.mean(0)) / x.std(0), y

    t.change_batch(standardised)


@fault("cnn mlp", WHOLE, "*norm", kinds="batch|noise|sample|loss|unstable|norm|small")
def list_made_anew_in_the_loop(t: Training) -> None:
    """Makes the list of a batch within the loop that fills it, so that its last sample is left."""
    t.change_batch(lambda step, x, y: (x[-1:], y[-1:]))


@fault("gan", WHOLE, "discriminator*", "generator*", kinds="loss|discriminator|win|scale|input")
def real_samples_in_another_range(t: Training) -> None:
    """Cleans samples that are generated, and leaves what is real as it was recorded."""
    t.batch = lambda step: (data.ring(step)[0], 40 * data.ring(step)[1] + 100)
