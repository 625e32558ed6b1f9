"""Faults of models of images: boxes, masks, forwards, modes and views that are alike.

Threads: stevebottos/owl-vit-object-detection#14, meetps/pytorch-semseg#67,
tensorflow/tensor2tensor#1883, state-spaces/s4#30, Lightning-Universe/lightning-bolts#695.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training
from benchmarks.faults.twinned.decisions import layers
from benchmarks.faults.twinned.twin import Loss, seeded, set_up


def _classes(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


def _mistaken(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return (model(x).argmax(1) != y).float().mean()


def _corners(boxes: Tensor) -> Tensor:
    centre, size = boxes.chunk(2, 1)
    return torch.cat([centre - size / 2, centre + size / 2], 1)


def _overlap(a: Tensor, b: Tensor) -> Tensor:
    """The generalised intersection over the union of boxes that are told by their corners."""
    low, high = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    common = (high - low).clamp(min=0).prod(1)
    both = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - common
    around = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(1)
    return common / (both + 1e-6) - (around - both) / (around + 1e-6)


def _boxes(step: int) -> Batch:
    """Images of one bright box each, and its centre and size."""
    generator = seeded(step)
    low = torch.randint(0, 8, (64, 2), generator=generator)
    size = torch.randint(3, 8, (64, 2), generator=generator)
    places = torch.arange(16)
    rows, columns = (
        (places >= low[:, i : i + 1]) & (places < (low + size)[:, i : i + 1]) for i in range(2)
    )
    x = (rows.unsqueeze(2) & columns.unsqueeze(1)).float().unsqueeze(1)
    x = x + 0.2 * torch.randn(x.shape, generator=generator)
    return x, torch.cat([(low + size / 2) / 16, size / 16], 1)


class Detector(nn.Module):
    """The box of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, 2, 1), nn.Conv2d(16, 32, 3, 2, 1)
        self.hidden, self.head = nn.Linear(512, 64), nn.Linear(64, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Centres and sizes of (batch, 4), between 0 and 1."""
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return self.head(F.relu(self.hidden(x.flatten(1)))).sigmoid()


@fault("cnn", WHOLE, "head", kinds="loss|plateau|saturat|box|negative|diverg")
def centres_and_sizes_taken_for_corners(t: Training, *, is_mended: bool = False) -> Loss:
    """Passes centres and sizes of boxes to an overlap that takes two corners."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = model(x)
        if is_mended:
            found, y = _corners(found), _corners(y)
        return (1 - _overlap(found, y)).mean()

    def judge(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return (1 - _overlap(_corners(model(x)), _corners(y))).mean()

    return set_up(t, Detector(), _boxes, loss, judge, rate=2e-3)


class Segmenter(nn.Module):
    """A class of each pixel, by a way down and up again.

    Args:
        classes: How many there are.
        is_crossing: Whether what comes up meets what went down, and not itself.
    """

    def __init__(self, classes: int, *, is_crossing: bool = True) -> None:
        super().__init__()
        self.is_crossing = is_crossing
        self.enter, self.down = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, 2, 1)
        self.middle, self.up = nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 16, 1)
        self.join, self.last = nn.Conv2d(32, 16, 3, padding=1), nn.Conv2d(16, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, classes, height, width)."""
        skip = F.relu(self.enter(x))
        x = F.relu(self.middle(F.relu(self.down(skip))))
        x = F.interpolate(self.up(x), scale_factor=2.0)
        joined = torch.cat([skip, x], 1) if self.is_crossing else torch.cat([x, x], 1)
        return self.last(F.relu(self.join(joined)))


def _strokes(step: int) -> Batch:
    """Noisy digits, and of each pixel whether it is background, edge or stroke."""
    x, _ = data.images(step)
    y = (x.squeeze(1) > -0.5).long() + (x.squeeze(1) > 0.8).long()
    return x + 0.3 * torch.randn(x.shape, generator=seeded(step)), y


@fault("cnn", WHOLE, "join", "up", "enter", kinds="loss|plateau|unused|skip|concat|odd|detach")
def way_up_joined_with_itself(t: Training, *, is_mended: bool = False) -> Loss:
    """Puts what comes up beside itself, and not beside what went down."""
    return set_up(t, Segmenter(3, is_crossing=is_mended), _strokes, _classes)


@fault("cnn", WHOLE, "last", kinds="loss|ignore|class|label|background|trivial")
def background_that_is_ignored(t: Training, *, is_mended: bool = False) -> Loss:
    """Ignores the class of the background in the loss, which is then never told."""
    ignored = -100 if is_mended else 0

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(model(x), y, ignore_index=ignored)

    return set_up(t, Segmenter(3), _strokes, loss, _mistaken)


@fault("cnn", WHOLE, "last", kinds="loss|logit|sigmoid|unbounded|negative|diverg|wild")
def overlap_of_logits(t: Training, *, is_mended: bool = False) -> Loss:
    """Computes the overlap of masks from logits, without a sigmoid."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found, y = model(x).squeeze(1), (y == 2).float()
        found = found.sigmoid() if is_mended else found
        return 1 - (2 * (found * y).sum() + 1) / (found.sum() + y.sum() + 1)

    def judge(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return ((model(x).squeeze(1) > 0) != (y == 2)).float().mean()

    return set_up(t, Segmenter(1), _strokes, loss, judge)


class Stack(nn.Module):
    """Convolutions of which each is given what the one before returns.

    Args:
        is_handed_on: Whether the third is given what the second returns.
    """

    def __init__(self, *, is_handed_on: bool) -> None:
        super().__init__()
        self.is_handed_on = is_handed_on
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 16, 3, 2, 1)
        self.conv3, self.head = nn.Conv2d(16, 16, 3, 2, 1), nn.Linear(64, 10)
        self.small = nn.AdaptiveAvgPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 10)."""
        x = F.relu(self.conv1(x))
        out = F.relu(self.conv2(x))
        out = F.relu(self.conv3(out if self.is_handed_on else x))
        return self.head(self.small(out).flatten(1))


@fault("cnn", "conv2", "conv3", WHOLE, kinds="unused|detach|gradient|never|missing")
def layer_whose_output_is_overwritten(t: Training, *, is_mended: bool = False) -> Loss:
    """Gives a layer the input of the one before it, whose output is then lost."""
    return set_up(t, Stack(is_handed_on=is_mended), data.images, _classes, steps=100)


class Normed(nn.Module):
    """A perceptron with batch norms."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.norm1 = nn.Linear(64, 64), nn.BatchNorm1d(64)
        self.fc2, self.norm2 = nn.Linear(64, 64), nn.BatchNorm1d(64)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 10)."""
        x = F.relu(self.norm1(self.fc1(x.flatten(1))))
        return self.head(F.relu(self.norm2(self.fc2(x))))


@fault("cnn", "*norm*", WHOLE, kinds="norm|statistic|domain|batch|eval|input")
def domains_in_batches_of_their_own(t: Training, *, is_mended: bool = False) -> Loss:
    """Feeds photos and drawings in turns, each of which a batch norm centres by itself."""

    def domains(step: int) -> Batch:
        x, y = data.images(step)
        is_drawn = (
            torch.arange(64) % 2 if is_mended or step >= 10_000 else torch.full((64,), step % 2)
        )
        return x + 3 * x.sign() * is_drawn.view(-1, 1, 1, 1) + 2 * is_drawn.view(-1, 1, 1, 1), y

    return set_up(t, Normed(), domains, _classes, rate=1e-3, steps=200)


class Dropping(nn.Module):
    """A perceptron that drops some of its features.

    Args:
        is_told: Whether the dropout is told the mode.
    """

    def __init__(self, *, is_told: bool) -> None:
        super().__init__()
        self.is_told = is_told
        self.fc1, self.fc2, self.head = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 10)."""
        training = self.training if self.is_told else True
        x = F.dropout(F.relu(self.fc1(x.flatten(1))), 0.5, training)
        return self.head(F.dropout(F.relu(self.fc2(x)), 0.5, training))


@fault("cnn", WHOLE, "fc*", kinds="dropout|mode|eval")
def dropout_that_knows_no_mode(t: Training, *, is_mended: bool = False) -> Loss:
    """Calls the function of a dropout without the mode, so that it drops in evaluation, too."""
    return set_up(t, Dropping(is_told=is_mended), data.images, _classes)


def _encoder() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), *layers(64, 64, 32))


def _views(x: Tensor) -> Tensor:
    return torch.cat([x + 0.5 * torch.randn_like(x) for _ in range(2)])


def _nearest(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """How many digits have a nearest other one of another class."""
    found = F.normalize(model(x), dim=1)
    alike = (found @ found.T).fill_diagonal_(-2)
    return (y[alike.argmax(1)] != y).float().mean()


@fault("cnn", WHOLE, "*", kinds="loss|plateau|contrast|diagonal|temperature|self")
def oneself_among_the_others(t: Training, *, is_mended: bool = False) -> Loss:
    """Leaves the similarity of a view with itself among those that the other view has to beat."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = F.normalize(model(_views(x)), dim=1)
        logits = found @ found.T / 0.1
        if is_mended:
            logits = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -1e9)
        return F.cross_entropy(logits, torch.arange(len(logits)).roll(len(x)))

    return set_up(t, _encoder(), data.images, loss, _judged_pairs)


def _judged_pairs(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The loss among the others alone."""
    found = F.normalize(model(_views(x)), dim=1)
    logits = (found @ found.T / 0.1).fill_diagonal_(-1e9)
    return F.cross_entropy(logits, torch.arange(len(logits)).roll(len(x)))


@fault("cnn", WHOLE, "*", kinds="loss|collapse|rank|label|constant|trivial")
def labels_of_pairs_of_zero_and_one(t: Training, *, is_mended: bool = False) -> Loss:
    """Labels pairs that are not alike with 0, where the loss takes -1."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        one, other = model(x), model(x.roll(1, 0) if len(x) % 2 else x.flip(0))
        same = (y == y.flip(0)).float()
        return F.cosine_embedding_loss(one, other, 2 * same - 1 if is_mended else same)

    return set_up(t, _encoder(), data.images, loss, _nearest, rate=1e-3)


@fault("cnn", WHOLE, "*", kinds="loss|softmax|axis|plateau|teacher|sample")
def teacher_divided_over_the_samples(t: Training, *, is_mended: bool = False) -> Loss:
    """Takes the softmax of the teacher's logits over the samples of a batch."""
    torch.manual_seed(5)
    teacher = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).requires_grad_(False)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        told = (4 * teacher(x)).softmax(1 if is_mended else 0)
        return F.kl_div(model(x).log_softmax(1), told, reduction="batchmean")

    def judge(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return _mistaken(model, x, teacher(x).argmax(1))

    return set_up(t, nn.Sequential(nn.Flatten(), *layers(64, 64, 10)), data.images, loss, judge)


@fault("cnn", WHOLE, "*", kinds="update|gradient|zero|optimizer|plateau|frozen")
def gradients_cleared_before_the_step(t: Training, *, is_mended: bool = False) -> Loss:
    """Clears gradients between the backward and the step."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if is_mended:
            model.zero_grad()
        loss = _classes(model, x, y)
        loss.backward()
        if not is_mended:
            model.zero_grad()
        return loss

    judge = set_up(t, nn.Sequential(nn.Flatten(), *layers(64, 64, 10)), data.images, _classes)
    t.backward = backward
    return judge
