"""Batches that a pipeline has spoilt on their way."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.edits import seeded
from benchmarks.faults.training import Training


@fault("mlp cnn", "{first}", WHOLE, kinds="input")
def bytes_that_wrapped_round(t: Training) -> None:
    """Standardised values kept as unsigned bytes: those below zero come back as some 255."""
    t.change_batch(lambda step, x, y: ((x.int() % 256).float(), y))


@fault("mlp-tanh", "{first}", WHOLE, kinds="input")
def years_among_standardised_columns(t: Training) -> None:
    """A column of years, all of them near 2000."""

    def date(step: int, x: Tensor, y: Tensor) -> Batch:
        x[:, 4] = 2000 + (10 * x[:, 4]).round()
        return x, y

    t.change_batch(date)


@fault("mlp-tanh", "{first}", WHOLE, kinds="input|plateau")
def columns_in_another_order_in_each_batch(t: Training) -> None:
    """Columns that were taken from a set, which has no order."""
    t.change_batch(lambda step, x, y: (x[:, torch.randperm(16, generator=seeded(step))], y))


@fault("resnet", "{first}", WHOLE, kinds="input|plateau|rank")
def images_resized_to_one_pixel(t: Training) -> None:
    """Images that were made as small as one pixel, and large again."""
    t.change_batch(lambda step, x, y: (x.mean((2, 3), keepdim=True).expand_as(x), y))


@fault("mlp", "{first}", WHOLE, kinds="input|loss_spike")
def every_seventh_batch_as_it_was_read(t: Training) -> None:
    """A second source of samples, which nobody scales."""
    t.change_batch(lambda step, x, y: (255 * x if step % 7 == 6 else x, y))


@fault("mlp", "{first}", WHOLE, kinds="input")
def label_among_the_inputs(t: Training) -> None:
    """A column of a table that is the label itself, under another name."""

    def leak(step: int, x: Tensor, y: Tensor) -> Batch:
        x[:, 0] = 2.0 * y
        return x, y

    t.change_batch(leak)


@fault("lstm", "{first}", WHOLE, kinds="input|plateau|rank")
def words_in_three_buckets(t: Training) -> None:
    """Words that are hashed into far too few buckets."""
    t.change_batch(lambda step, ids, y: (ids % 3, y))


@fault("lstm", WHOLE, kinds="plateau")
def sequences_cut_off_at_the_wrong_end(t: Training) -> None:
    """Truncation from the left, by which the token that tells the class is gone."""
    t.change_batch(lambda step, ids, y: (ids[:, 1:], y))


@fault("gpt-tied", WHOLE)
def targets_of_which_half_are_padding(t: Training) -> None:
    """Short texts filled up with a token of which the loss knows nothing."""

    def fill(step: int, ids: Tensor, y: Tensor) -> Batch:
        is_kept = torch.arange(32) < 10
        return ids * is_kept, y * is_kept

    t.change_batch(fill)


@fault("cnn", "{first}", WHOLE, kinds="input|plateau")
def six_samples_mixed_without_their_labels(t: Training) -> None:
    """Samples that are averages with five others, and labels of the first alone."""

    def mix(step: int, x: Tensor, y: Tensor) -> Batch:
        return sum((x.roll(i, 0) for i in range(1, 6)), x) / 6**0.5, y

    t.change_batch(mix)


@fault("mlp", "{first}", WHOLE, kinds="input|plateau|drift")
def noise_written_into_the_stored_samples(t: Training) -> None:
    """An augmentation in place, by which samples get worse each time they are seen."""
    stored = [t.batch(step) for step in range(8)]
    for x, _ in stored:
        x.requires_grad_(False)

    def batch(step: int) -> Batch:
        x, y = stored[step % 8]
        x.add_(1.5 * torch.randn(x.shape, generator=seeded(step)))
        return x.clone(), y

    t.batch = batch


@fault("mlp", "{first}", WHOLE, kinds="input|non_finite")
def constant_column_over_its_deviation(t: Training) -> None:
    """A column that is the same for all, standardised: nothing over nothing."""

    def standardise(step: int, x: Tensor, y: Tensor) -> Batch:
        x[:, 7] = 3.0
        return (x - x.mean(0)) / x.std(0), y

    t.change_batch(standardise)


@fault("mlp cnn", WHOLE, kinds="plateau|input")
def inputs_of_the_next_batch(t: Training) -> None:
    """A buffer that the loader has filled anew before its labels were read."""
    batch = t.batch
    t.batch = lambda step: (batch(step + 1)[0], batch(step)[1])


@fault("cnn levit", "{first}", WHOLE, kinds="input|plateau")
def pixels_in_another_order_in_each_image(t: Training) -> None:
    """Images read row by row with a length of row that is not theirs, and changes."""

    def shuffle(step: int, x: Tensor, y: Tensor) -> Batch:
        order = torch.rand(len(x), 64, generator=seeded(step)).argsort(1)
        return x.flatten(1).gather(1, order).view_as(x), y

    t.change_batch(shuffle)
