"""One batch, which should be learned by heart."""

import pytest
import torch
import torch.nn.functional as F

import taiyi_fx
from tests.step_checks import steps


def check(optimizer_of):
    model = steps.net()
    optimizer = optimizer_of(model)
    found = taiyi_fx.step_check(
        model, lambda x, y: F.cross_entropy(model(x), y), *steps.batch(), optimizer=optimizer
    )
    assert "learning" in found.looked_at
    return [one.text for one in found if one.kind == "unlearned_batch"]


@pytest.mark.parametrize(
    "optimizer_of",
    [
        lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True),
        lambda model: torch.optim.AdamW(
            [{"params": model[:2].parameters()}, {"params": model[2:].parameters(), "lr": 0.02}],
            lr=0.01,
        ),
    ],
)
def test_a_batch_is_learned(optimizer_of):
    assert check(optimizer_of) == []


def test_a_rate_that_is_far_too_small_is_told_with_both_losses():
    (text,) = check(lambda model: torch.optim.SGD(model.parameters(), lr=1e-7))
    assert text.startswith("100 updates on this batch alone bring its loss from 1.")
    assert text.endswith(": look at the optimizer")


def test_a_loss_that_no_optimizer_brings_down_is_told_as_such():
    model = steps.net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        return F.cross_entropy(model(x) * 1e-6, y)

    (one,) = taiyi_fx.step_check(model, step, *steps.batch(), optimizer=optimizer)
    assert one.kind == "unlearned_batch"
    assert one.text.endswith(" does no better: look at the model and the loss")


def test_an_optimizer_of_nothing_that_matters_is_told():
    outside = torch.nn.Linear(2, 2)
    (text,) = check(lambda model: torch.optim.Adam(outside.parameters()))
    assert text.endswith(": look at the optimizer")
    assert outside.weight.grad is None


def test_what_is_outside_of_all_modules_gets_no_gradient():
    model = steps.net()
    scale = torch.ones((), requires_grad=True)
    found = taiyi_fx.step_check(
        model,
        lambda x, y: F.cross_entropy(model(x) * scale, y),
        *steps.batch(),
        optimizer=torch.optim.Adam([*model.parameters(), scale], lr=0.01),
    )
    assert found == []
    assert scale.grad is None
    assert scale == 1


def test_tables_with_sparse_gradients_are_compared_with_the_adam_of_such():
    torch.manual_seed(0)
    parts = torch.nn.Embedding(50, 8, sparse=True), torch.nn.Flatten(), torch.nn.Linear(24, 4)
    model = torch.nn.Sequential(*parts)
    generator = torch.Generator().manual_seed(1)
    words = torch.randint(50, (12, 3), generator=generator)
    labels = torch.randint(4, (12,), generator=generator)

    def step(words, labels):
        return F.cross_entropy(model(words), labels)

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7)
    (one,) = taiyi_fx.step_check(model, step, words, labels, optimizer=optimizer)
    assert one.kind == "unlearned_batch"
    assert one.text.endswith(": look at the optimizer")
