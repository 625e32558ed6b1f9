"""Splits that code does not keep."""

import pytest

from taiyi_fx.findings.facts.source.splits import unused_splits, whole_splits
from tests.findings.facts.source.reading import found_in

CODE = """
train_mask[idx[:200]] = True
for epoch in range(90):
    out = model(x, edges)
    {loss}
    loss.backward()

def evaluate(model):
    out = model(x, edges)
    return F.cross_entropy(out[val_mask], y[data.val_mask])
"""


@pytest.mark.parametrize(
    ("loss", "is_found"),
    [
        ("loss = F.cross_entropy(out, y)", True),
        ("loss = F.nll_loss(out, y, weight=w)", True),
        ("loss = F.cross_entropy(out[train_mask], y[train_mask])", False),
        ("loss = f(out)", False),
        ("loss = F.mse_loss(out, x)", False),
        ("out, y = out[train_mask], y[train_mask]\n    loss = F.cross_entropy(out, y)", False),
    ],
)
def test_a_loss_of_all_samples_beside_an_evaluation_of_some_is_found(loss, is_found):
    assert bool(found_in(CODE.format(loss=loss), whole_splits)) == is_found


def test_batches_of_a_loop_are_of_samples_to_be_trained_on():
    code = CODE.format(loss="for out, y in loader:\n        loss = F.cross_entropy(out, y)")
    assert found_in(code, whole_splits) == []
    without = CODE.format(loss="loss = F.cross_entropy(out, y)").replace("train_mask", "mask")
    assert found_in(without, whole_splits) == []


SPLIT = """
train_mask, val_mask = torch.zeros(9, dtype=torch.bool), torch.zeros(9, dtype=torch.bool)
train_mask[:4] = True
val_mask[4:] = True
loss = f(model(x){taken}, y{taken})
loss.backward()
accuracy = g(model(x){evaluated}, y)
"""


@pytest.mark.parametrize(
    ("taken", "evaluated", "count"),
    [("", "[val_mask]", 1), ("[train_mask]", "[val_mask]", 0), ("", "", 0)],
)
def test_a_mask_of_training_that_nothing_reads_beside_one_of_evaluation_is_found(
    taken, evaluated, count
):
    code = SPLIT.format(taken=taken, evaluated=evaluated)
    assert len(found_in(code, unused_splits)) == count
    assert len(found_in(code.replace("train_mask", "data.train_idx"), unused_splits)) == count
