"""Samples in another order, and samples that see each other."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import taiyi_fx
from tests.step_checks import steps


def check(model, step, *batch, about=("mixed_rows", "crossing_rows")):
    found = taiyi_fx.step_check(model, step, *batch)
    return [one for one in found if one.kind in about], found


class Packed(nn.Module):
    """A recurrent layer over sequences of several lengths, sorted by these."""

    def __init__(self, puts_back):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(steps.TOKENS, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.head = nn.Linear(8, steps.CLASSES)
        self.puts_back = puts_back

    def forward(self, tokens, lengths):
        order = lengths.argsort(descending=True)
        packed = pack_padded_sequence(self.embedding(tokens[order]), lengths[order], True)
        x, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        x = self.head(x.sum(1))
        return x[order.argsort()] if self.puts_back else x


@pytest.mark.parametrize("puts_back", [True, False])
def test_rows_that_are_sorted_and_not_put_back(puts_back):
    model = Packed(puts_back)
    tokens = steps.tokens()
    lengths = torch.tensor([3, 9, 5, 7, 4, 8, 6, 3, 5, 9, 2, 7])
    labels = steps.batch()[1]

    def step(tokens, lengths, labels):
        return F.cross_entropy(model(tokens, lengths), labels)

    found, every = check(model, step, tokens, lengths, labels)
    assert "order" in every.looked_at
    assert [one.kind for one in found] == ([] if puts_back else ["mixed_rows"])
    for one in found:
        assert [follows.kind for follows in one.consequences] == ["crossing_rows"]


def test_targets_that_are_taken_in_another_order():
    model = steps.net()

    def step(x, y):
        twice = torch.cat([x, x + 0.1])
        return F.cross_entropy(model(twice), y.repeat_interleave(2))

    (one,), _ = check(model, step, *steps.batch())
    assert one.kind == "mixed_rows"
    assert "between them and the loss" in one.text

    def sound(x, y):
        return F.cross_entropy(model(torch.cat([x, x + 0.1])), y.repeat(2))

    assert check(model, sound, *steps.batch())[0] == []


def test_an_attention_over_the_samples_is_told_with_its_module():
    def step_of(model):
        return lambda x, y: F.cross_entropy(model(x)[:, -1], y)

    x, y = steps.tokens(), torch.arange(steps.BATCH)
    wrong, right = steps.Attending(batch_first=False), steps.Attending()
    (one,), _ = check(wrong, step_of(wrong), x, y)
    assert (one.kind, one.module) == ("crossing_rows", "attention")
    found, every = check(right, step_of(right), x, y)
    assert found == []
    assert {"order", "samples"} <= {*every.looked_at.replace(",", "").split()}


def test_a_language_model_that_attends_to_other_samples():
    model = steps.Attending(batch_first=False)

    def step(tokens):
        return steps.next_token_loss(model(tokens[:, :-1]), tokens[:, 1:])

    (one,), _ = check(model, step, steps.tokens())
    assert (one.kind, one.module) == ("crossing_rows", "attention")


class Normalised(nn.Module):
    def __init__(self, axis):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.axis = nn.Linear(6, 16), nn.Linear(16, steps.CLASSES), axis

    def forward(self, x):
        x = self.first(x)
        return self.last((x - x.mean(self.axis, keepdim=True)) / x.std(self.axis, keepdim=True))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_normalisation_over_the_samples(axis):
    model = Normalised(axis)
    found, _ = check(model, lambda x, y: F.cross_entropy(model(x), y), *steps.batch())
    assert [one.kind for one in found] == ([] if axis else ["crossing_rows"])
    if found:
        # What the layer is given is wrong, as its caller normalises between two of them.
        assert "it begins in what 'last' is given" in found[0].text


def test_batch_norm_in_training_is_no_mistake():
    model = steps.net()
    found, every = check(model, lambda x, y: F.cross_entropy(model(x), y), *steps.batch())
    assert found == []
    assert "samples" in every.looked_at


def test_samples_along_the_second_axis_are_no_mistake():
    torch.manual_seed(0)
    model = nn.LSTM(6, 5)
    x, aim = torch.randn(7, steps.BATCH, 6), torch.randn(7, steps.BATCH, 5)
    found, every = check(model, lambda x, aim: F.mse_loss(model(x)[0], aim), x, aim)
    assert found == []
    assert "along the second axis" in every.remark


def test_random_numbers_of_a_loss_leave_its_order_untried():
    model = nn.Linear(6, 6)

    def step(x):
        noise = torch.randn_like(x)
        return F.mse_loss(model(x + noise), noise)

    found, every = check(model, step, steps.batch()[0])
    assert found == []
    assert "order (the loss draws random numbers in evaluation mode, too)" in every.remark
    assert "samples" in every.looked_at


def test_a_graph_has_no_axis_of_samples():
    model = nn.Linear(6, steps.CLASSES)
    x, y = steps.batch()
    adjacency = torch.rand(steps.BATCH, steps.BATCH)
    found, every = check(model, lambda x, a, y: F.cross_entropy(a @ model(x), y), x, adjacency, y)
    assert found == []
    assert "as many places as samples" in every.remark


def test_views_that_are_not_where_the_loss_looks_for_them():
    torch.manual_seed(0)
    model = nn.Linear(6, 8)

    def step_of(is_turned):
        def step(views):
            pairs = views.transpose(0, 1) if is_turned else views
            z = F.normalize(model(pairs.reshape(-1, 6)), dim=1)
            n = len(views)
            logits = z @ z.T / 0.5 - 1e9 * torch.eye(2 * n)
            return F.cross_entropy(logits, (torch.arange(2 * n) + n) % (2 * n))

        return step

    views = torch.randn(steps.BATCH, 2, 6)
    (one,), _ = check(model, step_of(False), views)
    assert one.kind == "mixed_rows"
    assert "between them and the loss" in one.text
    found, every = check(model, step_of(True), views)
    assert found == []
    assert "order" in every.looked_at
