"""How a loss is made, by autograd's graph."""

import gc
import weakref
from dataclasses import fields, replace

import pytest
import torch
import torch.nn.functional as F

from taiyi_fx.findings import LossGraph, loss_graph_of, owners_of
from taiyi_fx.findings.facts.ways import Terms
from tests.findings.facts.losses import (
    ADJACENCY,
    ALPHA,
    LABELS,
    LINEAR,
    TIME_FIRST,
    VALUES,
    K,
    N,
    X,
    Y,
    looked_at,
    many,
    one,
    other,
    pooled,
    routed,
)

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


@pytest.mark.parametrize("made", SOUND.values(), ids=SOUND)
def test_what_is_sound_is_not(made):
    found = looked_at(made, after_backward=True)
    facts = {"logits": None, "is_made_anew": False, "reached": frozenset()}
    facts |= {"is_of_one_forward": False, "has_gradient": False, "terms": Terms()}
    assert replace(found, **facts) == LossGraph()


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


def test_a_field_that_is_not_found_leaves_the_others(monkeypatch):
    def fail(uses):
        raise RuntimeError("no graph")

    (logits,) = (one for one in fields(LossGraph) if one.name == "logits")
    monkeypatch.setattr(logits, "metadata", {"detect": fail})
    failed = []
    loss = F.cross_entropy(many(X).softmax(0), LABELS)
    found = loss_graph_of(loss, {}, lambda name, error: failed.append((name, str(error))))
    assert failed == [("logits", "no graph")]
    assert found.logits is None
    assert found.softmaxes
    with pytest.raises(RuntimeError, match="no graph"):
        loss_graph_of(loss, {})


def test_each_field_is_found_by_a_function():
    assert all(callable(one.metadata["detect"]) for one in fields(LossGraph))
