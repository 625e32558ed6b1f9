"""One update of the optimizer."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from tests.step_checks import steps

WORDS = 200


def found_in(model, optimizer, *batch):
    def step(x, y):
        return F.cross_entropy(model(x).float(), y)

    found = taiyi_fx.step_check(model, step, *batch, optimizer=optimizer)
    assert "update" in found.looked_at
    return {one.kind: one for one in found}


def of_words(sparse=False):
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(WORDS, 8, sparse=sparse), nn.Flatten(), nn.Linear(24, 4))


def words():
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(0, 4, (12,), generator=generator)
    return torch.randint(0, WORDS, (12, 3), generator=generator), labels


def test_a_decay_within_adam_takes_away_the_words_that_a_batch_does_not_have():
    model = of_words()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)
    (one,) = found_in(model, optimizer, *words()).values()
    unused = WORDS - len(words()[0].unique())
    assert (one.kind, one.module, one.severity) == ("decayed_rows", "0", "note")
    assert f"moves the {unused} rows of '0.weight'" in one.text
    assert one.value == pytest.approx(1e-2, rel=1e-3)  # as far as the learning rate
    gone = int(one.text.split("is gone in ")[1].split()[0])
    assert 80 < gone < 200  # of entries drawn with a deviation of 1, at steps of 0.01


def test_several_embeddings_are_one_finding():
    model = of_words()
    model[0] = nn.ModuleDict({"a": nn.Embedding(WORDS, 8), "b": nn.Embedding(WORDS, 8)})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)

    def step(x, y):
        return F.cross_entropy(model[1:](model[0]["a"](x) + model[0]["b"](x)), y)

    (one,) = taiyi_fx.step_check(model, step, *words(), optimizer=optimizer)
    assert (one.module, [other.module for other in one.consequences]) == ("0.a", ["0.b"])


@pytest.mark.parametrize(
    "optimizer_of",
    [
        lambda model: torch.optim.Adam(model.parameters(), lr=1e-2),
        lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1),
        lambda model: torch.optim.SGD(model.parameters(), lr=1e-1, weight_decay=1e-4),
        lambda model: torch.optim.Adam(
            [
                {"params": model[0].parameters()},
                {"params": model[2].parameters(), "weight_decay": 1e-4},
            ],
            lr=1e-2,
        ),
    ],
)
def test_other_ways_to_train_an_embedding_leave_them_alone(optimizer_of):
    model = of_words()
    assert found_in(model, optimizer_of(model), *words()) == {}


def test_so_does_an_optimizer_of_sparse_gradients():
    model = of_words(sparse=True)
    optimizer = torch.optim.SparseAdam(model[0].parameters(), lr=1e-2)
    assert "decayed_rows" not in found_in(model, optimizer, *words())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_steps_that_half_precision_rounds_away(dtype):
    model = steps.net().to(dtype)
    x, y = steps.batch()
    one = found_in(model, torch.optim.SGD(model.parameters(), lr=1e-5), x.to(dtype), y)[
        "updates_lost"
    ]
    assert one.text.endswith("which rounds it away")
    assert str(dtype).removeprefix("torch.") in one.text
    assert one.value > 0.9
    large = torch.optim.AdamW(model.parameters(), lr=1e-2)
    assert "updates_lost" not in found_in(model, large, x.to(dtype), y)


def test_steps_as_small_are_none_of_it_in_single_precision():
    model = steps.net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    assert set(found_in(model, optimizer, *steps.batch())) == {"unlearned_batch"}


def test_the_model_and_the_optimizer_are_as_before():
    model = of_words()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    found_in(model, optimizer, *words())
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert not optimizer.state


def test_a_rate_that_is_warmed_up_leaves_it_untried():
    model = of_words()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)
    torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1e-3)
    found = taiyi_fx.step_check(
        model, lambda x, y: F.cross_entropy(model(x), y), *words(), optimizer=optimizer
    )
    assert found == []
    assert "update (the learning rate is at 1e-05 by its schedule)" in found.remark
