"""Softmaxes over samples and operands that broadcast, in autograd's graph of a loss."""

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings import LossGraph, loss_graph_of, owners_of

N, T, K = 12, 5, 7
LINEAR = nn.ModuleDict(
    {
        "one": nn.Linear(6, 1),
        "many": nn.Linear(6, K),
        "conv": nn.Conv2d(3, 1, 3, padding=1),
        "other": nn.Linear(6, N),
    }
)
X, Y, LABELS = torch.randn(N, 6), torch.randn(N), torch.randint(K, (N,))
SEQUENCES, IMAGES = torch.randn(N, T, 6), torch.randn(N, 3, 8, 8)
VALUES, TIME_FIRST = torch.randn(N, T, 4), torch.randn(T, N, 6)
ADJACENCY = (torch.rand(N, N) < 0.3).float()
one, many, conv, other = LINEAR["one"], LINEAR["many"], LINEAR["conv"], LINEAR["other"]
ALPHA = nn.Parameter(torch.randn(N, K))


def routed(axis):
    """The two best of some experts, as a mixture of experts takes them."""
    weight, index = F.softmax(many(X), axis).topk(2, -1)
    row, slot = (index == index[0, 0]).nonzero(as_tuple=True)
    return torch.zeros(N, 4).index_add(0, row, weight[row, slot].unsqueeze(1) * torch.ones(4))


def pooled(axis, over):
    """The mean over time, by weights."""
    return (one(SEQUENCES).softmax(axis) * VALUES).sum(over)


SOFTMAX_OVER_SAMPLES = {
    "router": lambda: F.mse_loss(routed(0), torch.zeros(N, 4)),
    "router with a balance": lambda: (
        F.mse_loss(routed(0), torch.zeros(N, 4)) + (many(X).softmax(0).mean(0) ** 2).sum()
    ),
    "mixture": lambda: (many(X).softmax(0) @ torch.randn(K, 3)).square().mean(),
    "probabilities": lambda: F.nll_loss(many(X).softmax(0).clamp(min=1e-9).log(), LABELS),
    "logarithms": lambda: -(many(X).log_softmax(0) * F.one_hot(LABELS, K)).sum(1).mean(),
    "pooling": lambda: pooled(0, 1).square().mean(),
    "pooling by a product": lambda: (
        (one(SEQUENCES).squeeze(-1).softmax(0).unsqueeze(1) @ VALUES).squeeze(1).square().mean()
    ),
    "tokens": lambda: (many(SEQUENCES.flatten(0, 1)).softmax(0) ** 2).view(N, T, K).mean(),
}
SOFTMAX_OF_ONE = {
    "the one best": lambda: many(X).topk(1).values.softmax(-1).mean(),
    "one logit": lambda: F.nll_loss(one(X).softmax(1).log(), torch.zeros(N).long()),
    "one class": lambda: F.cross_entropy(one(X), torch.zeros(N).long()),
    "pooling": lambda: pooled(-1, 1).square().mean(),
    "one channel": lambda: F.mse_loss(conv(IMAGES).softmax(1), IMAGES[:, :1]),
}
SOUND = {
    "classes": lambda: F.cross_entropy(many(X), LABELS),
    "probabilities": lambda: F.nll_loss(many(X).softmax(-1).log(), LABELS),
    "router": lambda: F.mse_loss(routed(-1), torch.zeros(N, 4)),
    "pooling": lambda: pooled(1, 1).square().mean(),
    "pooling, time first": lambda: (
        (one(TIME_FIRST).softmax(0) * VALUES.transpose(0, 1)).sum(0).square().mean()
    ),
    "pooling, time first, by a product": lambda: (
        (one(TIME_FIRST).softmax(0).permute(1, 2, 0) @ VALUES).square().mean()
    ),
    "bag of instances": lambda: (one(X).softmax(0).t() @ X).square().mean(),
    "linear attention": lambda: (X @ (many(X).softmax(0).t() @ X).mT[:, :2]).square().mean(),
    "similarities both ways": lambda: (
        F.cross_entropy(other(X) @ X @ X.t(), torch.arange(N))
        - (other(X) @ X @ X.t()).log_softmax(0).diagonal().mean()
    ),
    "similarities of two sets": lambda: (
        -(many(X) @ torch.randn(9, K).t()).log_softmax(0)[:, 0].mean()
    ),
    "matches": lambda: -(many(X) @ torch.randn(9, K).t()).softmax(0).log().mean(),
    "mixing weights": lambda: (ALPHA.softmax(0) * many(X)).mean(),
    "weights of samples": lambda: (one(X).softmax(0) * torch.rand(N, 1)).sum(),
    "balance": lambda: (many(X).softmax(0).mean(0) ** 2).sum(),
    "regression": lambda: F.mse_loss(one(X).squeeze(1), Y),
    "regression by hand": lambda: ((one(X) - Y.unsqueeze(1)) ** 2).mean(),
    "pairs": lambda: (one(X).squeeze(1)[:, None] - one(X).squeeze(1)[None]).abs().mean(),
    "pairs, with a view": lambda: (one(X).view(-1, 1) - Y).abs().mean(),
    "pairs of pairs": lambda: (
        (one(X) - Y.unsqueeze(0)).abs().mean() - 0.5 * (one(X) - one(X).t()).abs().mean()
    ),
    "quantiles": lambda: (many(X).unsqueeze(2) - torch.randn(N, 1, 7)).abs().mean(),
    "gates of nodes": lambda: ((ADJACENCY * one(X)) @ X).square().mean(),
    "sources and targets": lambda: ((one(X) + one(X).squeeze(1)).softmax(-1) @ X).square().mean(),
    "weighted samples": lambda: (
        torch.rand(N) * F.cross_entropy(many(X), LABELS, reduction="none")
    ).mean(),
    "centred rows": lambda: (other(X) - other(X).mean(1, keepdim=True)).square().mean(),
    "bias": lambda: (other(X) - Y).square().mean(),
    "number": lambda: 3.0,
    "leaf": lambda: torch.zeros((), requires_grad=True),
}
BROADCAST = {
    "column and row": lambda: ((one(X) - Y) ** 2).mean(),
    "row and column": lambda: ((one(X).squeeze(1) - Y.unsqueeze(1)) ** 2).mean(),
    "reversed": lambda: (Y - one(X)).abs().sum(),
    "mse_loss": lambda: F.mse_loss(one(X), Y),
    "huber_loss": lambda: F.huber_loss(one(X).squeeze(1), Y.unsqueeze(1)),
    "weights": lambda: (F.cross_entropy(many(X), LABELS, reduction="none") * Y.unsqueeze(1)).mean(),
    "values of actions": lambda: (
        -many(X).log_softmax(-1).gather(1, LABELS.unsqueeze(1)).squeeze(1)
        * (Y.unsqueeze(1) - one(X).detach())
    ).mean(),
    "both trained": lambda: (many(X)[:, 0] * one(X)).mean(),
    "maps": lambda: (conv(IMAGES).sigmoid() * (IMAGES[:, 0] > 0)).mean(),
}


def looked_at(made, *, after_backward):
    loss = made()
    if after_backward and isinstance(loss, torch.Tensor) and loss.grad_fn is not None:
        loss.backward()
    return loss_graph_of(loss, owners_of(LINEAR))


@pytest.mark.parametrize("after_backward", [False, True])
@pytest.mark.parametrize("made", SOFTMAX_OVER_SAMPLES.values(), ids=SOFTMAX_OVER_SAMPLES)
def test_a_softmax_over_samples_is_seen(made, after_backward):
    found = looked_at(made, after_backward=after_backward).softmaxes
    assert [(x.axis, x.is_of_one, x.shape[0] % N) for x in found[:1]] == [(0, False, 0)]
    assert found[0].module in ("one", "many")


@pytest.mark.parametrize("made", SOFTMAX_OF_ONE.values(), ids=SOFTMAX_OF_ONE)
def test_a_softmax_of_one_element_is_seen(made):
    (found,) = looked_at(made, after_backward=True).softmaxes
    assert found.is_of_one
    assert found.is_of_best == (made is SOFTMAX_OF_ONE["the one best"])
    assert found.module in ("one", "many", "conv")


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("after_backward", [False, True])
@pytest.mark.parametrize("made", BROADCAST.values(), ids=BROADCAST)
def test_operands_that_broadcast_are_seen(made, after_backward):
    found = looked_at(made, after_backward=after_backward)
    assert not found.softmaxes
    assert [x.made[:2] for x in found.broadcasts] == [(N, N)]
    assert found.broadcasts[0].module in ("one", "many", "conv")


@pytest.mark.parametrize("made", SOUND.values(), ids=SOUND)
def test_what_is_sound_is_not(made):
    found = looked_at(made, after_backward=True)
    facts = {"logits": None, "is_made_anew": False, "reached": frozenset()}
    facts["is_of_one_forward"] = False
    assert found._replace(**facts) == LossGraph()


def test_nothing_of_the_graph_is_kept():
    activation = many(X)
    gone, loss = weakref.ref(activation), (activation.softmax(0) ** 2).mean()
    del activation
    kept = loss_graph_of(loss, owners_of(LINEAR))
    del loss
    gc.collect()
    assert kept.softmaxes
    assert gone() is None


def test_a_graph_of_very_many_functions_is_left_alone():
    x = many(X).softmax(0)
    for _ in range(21_000):
        x = x * 1
    assert loss_graph_of(x.mean(), {}) == LossGraph()


def copied(targets, *given):
    """The embedding that is given the targets, of a model with one table for each input."""
    tables = nn.ModuleDict({f"t{i}": nn.Embedding(K, 6) for i in range(len(given))})
    x = sum(table(ids) for table, ids in zip(tables.values(), given, strict=True))
    return loss_graph_of(F.cross_entropy(many(x), targets), owners_of({**tables})).copied


def test_targets_that_are_an_embedding_s_indices_are_copied():
    other = LABELS.roll(1)
    assert copied(LABELS, LABELS) == "t0"
    assert copied(LABELS.where(LABELS > 2, -100), LABELS) == "t0"
    assert copied(other, LABELS) == ""


def test_where_another_embedding_is_given_others_it_is_that_of_an_encoder():
    assert copied(LABELS, LABELS, LABELS.roll(1)) == ""


@pytest.mark.parametrize(("earlier", "found"), [(1, ""), (2, "t0"), (0, "t0")])
def test_a_decoder_is_given_the_token_before_each_target(earlier, found):
    tables = nn.ModuleDict({name: nn.Embedding(K, 6) for name in ("t0", "t1")})
    ids = torch.randint(K, (5, 12))
    x = tables["t0"](ids[:, 2:]) + tables["t1"](ids[:, 2 - earlier : 12 - earlier])
    loss = F.cross_entropy(many(x.flatten(0, 1)), ids[:, 2:].flatten())
    assert loss_graph_of(loss, owners_of({**tables})).copied == found


def test_targets_that_are_all_one_class_say_nothing():
    assert copied(torch.ones_like(LABELS), torch.ones_like(LABELS)) == ""


WORDS = torch.randint(K, (3, 16), generator=torch.Generator().manual_seed(0))


def shifted(by, *others):
    """The embedding whose indices are the targets of a model, some places later, and how many."""
    tables = nn.ModuleDict({f"t{i}": nn.Embedding(K, 6) for i in range(1 + len(others))})
    x = sum(table(ids) for table, ids in zip(tables.values(), (WORDS, *others), strict=True))
    targets = torch.full_like(WORDS, -100)
    targets[:, : 16 - by] = WORDS[:, by:]
    loss = F.cross_entropy(nn.Linear(6, K)(x).flatten(0, 1), targets.flatten())
    return loss_graph_of(loss, owners_of({**tables})).shifted


def test_targets_that_are_an_embedding_s_indices_some_places_later_are_shifted():
    assert [shifted(by) for by in (0, 1, 2, 3)] == [None, ("t0", 1), ("t0", 2), ("t0", 3)]


def test_where_the_first_places_have_no_targets_they_may_be_a_prefix():
    x = nn.Embedding(K, 6)(WORDS)
    targets = torch.full_like(WORDS, -100)
    targets[:, 5:15] = WORDS[:, 6:]
    loss = F.cross_entropy(nn.Linear(6, K)(x).flatten(0, 1), targets.flatten())
    assert loss_graph_of(loss, {}).shifted is None


def test_few_targets_may_be_tokens_two_places_later_by_chance():
    ids = WORDS[:, :6]
    targets = torch.full_like(ids, -100)
    targets[:, 3] = ids[:, 5]
    x = nn.Embedding(K, 6)(ids)
    loss = F.cross_entropy(nn.Linear(6, K)(x).flatten(0, 1), targets.flatten())
    assert loss_graph_of(loss, {}).shifted is None


def test_where_another_embedding_is_given_the_token_before_it_is_a_decoder_s():
    assert shifted(2, WORDS.roll(-1, 1)) is None


def test_a_loss_that_is_made_of_a_number_is_made_anew():
    own = owners_of(dict(LINEAR.named_modules()))
    number = torch.tensor(1.0, requires_grad=True)
    for loss in (number, torch.stack([number / 2]).mean()):
        assert loss_graph_of(loss, own).is_made_anew
    for loss in (torch.tensor(1.0), one(X).sum(), number * one(X).sum(), 1.0):
        assert not loss_graph_of(loss, own).is_made_anew


def test_a_torn_view_has_the_module_before_it():
    own = owners_of(dict(LINEAR.named_modules()))
    (view,) = loss_graph_of(many(X).view(K, N).t().square().mean(), own).views
    assert view == ("many", (N, K), (K, N))
