"""Faults of recommenders and of models of tables.

Threads: lucidrains/tab-transformer-pytorch#20, pyg-team/pytorch_geometric#2104,
QunBB/DeepLearning#1, google-research/timesfm#393.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training
from benchmarks.faults.twinned.decisions import layers
from benchmarks.faults.twinned.twin import Loss, seeded, set_up

_LEVELS, _COLUMNS = 8, 6


class Table(nn.Module):
    """A number from columns of categories, all of whose levels are rows of one embedding.

    Args:
        is_offset: Whether each column has rows of its own.
    """

    def __init__(self, *, is_offset: bool) -> None:
        super().__init__()
        self.levels = nn.Embedding(_LEVELS * _COLUMNS, 16)
        self.first = torch.arange(_COLUMNS) * _LEVELS * is_offset
        self.body = layers(16, 64, 1)

    def forward(self, ids: Tensor) -> Tensor:
        """Numbers of (batch,)."""
        return self.body(self.levels(ids + self.first).mean(1)).squeeze(1)


def _squared(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(model(x), y)


@fault("mlp", WHOLE, "levels", kinds="embedding|row|loss|plateau|unused")
def columns_that_share_their_levels(t: Training, *, is_mended: bool = False) -> Loss:
    """Looks up all columns in one table, without adding where a column's rows begin."""

    def columns(step: int) -> Batch:
        ids = torch.randint(_LEVELS, (128, _COLUMNS), generator=seeded(step))
        worth = torch.randn(_COLUMNS, _LEVELS, generator=torch.Generator().manual_seed(0))
        return ids, worth[torch.arange(_COLUMNS), ids].sum(1) / _COLUMNS**0.5

    return set_up(t, Table(is_offset=is_mended), columns, _squared)


class Tastes(nn.Module):
    """What a user thinks of two items."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(200, 16), nn.Embedding(100, 16)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, ids: Tensor) -> Tensor:
        """Elements of the products with the liked and the other item, of (batch, 2, 16)."""
        return self.users(ids[:, :1]) * self.items(ids[:, 1:])


def _likes(step: int) -> Batch:
    """Users, what they like and what they do not: items are liked by users of their kind."""
    generator = seeded(step)
    user = torch.randint(200, (256,), generator=generator)
    item = torch.randint(25, (256,), generator=generator) * 4
    liked, other = item + user % 4, item + (user + 1 + item // 4 % 3) % 4
    return torch.stack([user, liked, other], 1), torch.zeros(256)


def _wrong(model: nn.Module, ids: Tensor, y: Tensor) -> Tensor:
    """How many pairs are in the wrong order."""
    liked, other = model(ids).sum(-1).unbind(1)
    return (liked <= other).float().mean()


@fault("mlp", WHOLE, "users", "items", kinds="loss|embedding|grow|drift|steps|diverg|odd|wild")
def differences_added_up_before_their_logarithm(t: Training, *, is_mended: bool = False) -> Loss:
    """Adds up all preferences of a batch, and takes the logarithm of one sigmoid."""

    def loss(model: nn.Module, ids: Tensor, y: Tensor) -> Tensor:
        liked, other = model(ids).unbind(1)
        by_pair = (liked - other).sum(1) if is_mended else (liked - other).sum()
        return -F.logsigmoid(by_pair).mean()

    return set_up(t, Tastes(), _likes, loss, _wrong, rate=1e-2, steps=200)


@fault("mlp", WHOLE, "users", "items", kinds="loss|plateau|label|negative|embedding")
def others_drawn_from_what_is_liked(t: Training, *, is_mended: bool = False) -> Loss:
    """Draws what a user should not like from the items that the user likes."""

    def loss(model: nn.Module, ids: Tensor, y: Tensor) -> Tensor:
        if not is_mended:
            user = ids[:, 0]
            again = torch.randint(25, (len(ids),)) * 4 + user % 4
            ids = torch.stack([user, ids[:, 1], again], 1)
        liked, other = model(ids).sum(-1).unbind(1)
        return -F.logsigmoid(liked - other).mean()

    return set_up(t, Tastes(), _likes, loss, _wrong, rate=1e-2, steps=200)


def _rows(step: int) -> Batch:
    """Rows of one level each, and the level."""
    generator = seeded(step)
    level = torch.randn(128, 1, generator=generator)
    x = level + 0.5 * torch.randn(128, 12, generator=generator)
    return x, 2 * level.squeeze(1) + x[:, 0]


def _teller() -> nn.Sequential:
    """Layers whose single output has no axis of its own."""
    return nn.Sequential(*layers(12, 64, 64, 1), nn.Flatten(0))


@fault("mlp", WHOLE, "0", kinds="loss|plateau|input|normalis|axis")
def rows_scaled_each_by_itself(t: Training, *, is_mended: bool = False) -> Loss:
    """Standardises along the columns of a row, which takes away the level of the row."""

    def scaled(step: int) -> Batch:
        x, y = _rows(step)
        axis = 0 if is_mended else 1
        return (x - x.mean(axis, keepdim=True)) / x.std(axis, keepdim=True), y

    return set_up(t, _teller(), scaled, _squared)


@fault("mlp", WHOLE, "4", kinds="loss|plateau|dropout|noise|output")
def dropout_behind_the_last_layer(t: Training, *, is_mended: bool = False) -> Loss:
    """Puts a dropout behind the number that a network tells."""
    model = _teller()
    if not is_mended:
        model.append(nn.Dropout(0.5))
    return set_up(t, model, _rows, _squared)


@fault("mlp", WHOLE, kinds="decay|weight|loss|drift|shrink|plateau")
def decay_of_one_optimizer_in_another(t: Training, *, is_mended: bool = False) -> Loss:
    """Gives Adam the decay that is usual with AdamW, which it adds to gradients."""
    judge = set_up(t, _teller(), _rows, _squared, steps=200)
    kind = torch.optim.AdamW if is_mended else torch.optim.Adam
    t.optimizer = kind(t.model.parameters(), lr=3e-3, weight_decay=0.3)
    return judge


class Counts(nn.Module):
    """How often something happens, or the logarithm of that.

    Args:
        is_logarithm: Whether it returns the logarithm.
    """

    def __init__(self, *, is_logarithm: bool) -> None:
        super().__init__()
        self.is_logarithm, self.body = is_logarithm, layers(12, 64, 64, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Numbers of (batch,)."""
        found = self.body(x).squeeze(1)
        return found if self.is_logarithm else found.exp()


@fault("mlp", WHOLE, "body*", kinds="loss|exp|diverg|large|wild|nan|finite")
def exponential_taken_twice(t: Training, *, is_mended: bool = False) -> Loss:
    """Returns how often something happens to a loss that takes the logarithm of that."""

    def counted(step: int) -> Batch:
        x, y = _rows(step)
        return x, torch.poisson((0.5 * y + 1).clamp(max=4).exp(), generator=seeded(step))

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.poisson_nll_loss(model(x), y)

    def judge(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        rate = model(x).exp() if is_mended else model(x)
        return (rate - y).abs().mean()

    return set_up(t, Counts(is_logarithm=is_mended), counted, loss, judge)


@fault("mlp", WHOLE, "4", kinds="loss|variance|dead|relu|zero|large|wild|steps|odd")
def variance_cut_off_at_zero(t: Training, *, is_mended: bool = False) -> Loss:
    """Makes a variance positive by a ReLU, which makes it 0."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        mean, raw = model(x).unbind(1)
        return F.gaussian_nll_loss(mean, y, F.softplus(raw) if is_mended else F.relu(raw))

    def judge(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(model(x)[:, 0], y)

    return set_up(t, layers(12, 64, 64, 2), _rows, loss, judge)


def _marks(step: int) -> Batch:
    """Rows, and which of four marks each has: two on average, each by itself."""
    x = torch.randn(128, 12, generator=seeded(step))
    return x, (x[:, :4] + 0.5 * x[:, 4:8] > 0).float()


def _mistaken(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return ((model(x) > 0).float() != y).float().mean()


@fault("mlp", WHOLE, "4", kinds="loss|label|class|softmax|plateau|grow|drift")
def marks_that_exclude_each_other(t: Training, *, is_mended: bool = False) -> Loss:
    """Takes a loss of exclusive classes for marks of which a row may have several."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = model(x)
        if is_mended:
            return F.binary_cross_entropy_with_logits(found, y)
        return F.cross_entropy(found, y)

    return set_up(t, layers(12, 64, 64, 4), _marks, loss, _mistaken)


@fault("mlp", WHOLE, "*", kinds="loss|class|gradient|zero|softmax|axis|trivial|update|plateau")
def softmax_of_one_class(t: Training, *, is_mended: bool = False) -> Loss:
    """Takes a loss of several classes for a model that has one, which is then always 0."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = model(x)
        if is_mended:
            return F.binary_cross_entropy_with_logits(found, y[:, :1])
        return F.cross_entropy(found, y[:, :1])

    def judge(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return _mistaken(model, x, y[:, :1])

    return set_up(t, layers(12, 64, 64, 1), _marks, loss, judge)


class Tasks(nn.Module):
    """Two numbers, and how much each of their errors weighs."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.weights = layers(12, 64, 64, 2), nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        """Numbers of (batch, 2)."""
        return self.body(x)


@fault("mlp", WHOLE, "body*", kinds="nan|finite|inf|log|weight|loss|unbounded|negative")
def logarithm_of_a_weight_that_falls_below_zero(t: Training, *, is_mended: bool = False) -> Loss:
    """Learns the deviation of each error itself, and not its logarithm."""

    def errors(model: nn.Module, x: Tensor) -> Tensor:
        wanted = torch.stack([x[:, 0], torch.zeros(len(x))], 1)
        return (model(x) - wanted).square().mean(0)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        weights = model.get_parameter("weights")
        log = weights if is_mended else weights.log()
        return ((-2 * log).exp() * errors(model, x) / 2 + log).sum()

    def judge(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return errors(model, x).mean()

    return set_up(t, Tasks(), _rows, loss, judge, rate=3e-2, steps=250)
