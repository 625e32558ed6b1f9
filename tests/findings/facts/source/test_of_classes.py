"""Calls in the source of a module's class that do not what they seem to."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings.facts.source.of_classes import mentions_hooks, slips_of


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.pos, self.seen = nn.Linear(4, 4), nn.Parameter(torch.ones(4)), set()


class Thrown(Model):
    def forward(self, x):
        x.masked_fill(x > 0, 0.0)
        x.add(self.pos)
        F.relu(x)
        return self.fc(x)


class Dropping(Model):
    def forward(self, x):
        return self.fc(F.dropout(torch.nn.functional.dropout2d(x, 0.1), p=0.2))


class Places(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.register_buffer("pe", torch.ones(shape))

    def forward(self, x):
        x = x + self.pe[: x.size(0)] + self.pe[: len(x)] + self.pe[: x.shape[0]]
        return x + self.pe[: x.size(1)]


class Ratings(nn.Module):
    def __init__(self):
        super().__init__()
        self.user_emb, self.item_emb = nn.Embedding(3, 2), nn.Embedding(5, 2)

    def forward(self, user, item):
        return self.user_emb(user) * self.item_emb(user)


class Sound(Model):
    def forward(self, x, options=None):
        x = x.masked_fill(x > 0, 0.0)
        x.masked_fill_(x > 1, 0.0)
        x.add_(self.pos)
        self.seen.add(str(x.shape))
        F.relu(x, inplace=True)
        torch.clamp(x, 0, 1, out=x)
        x = F.dropout(x, 0.1, self.training)
        x = F.dropout(x, 0.1, training=self.training)
        x = F.dropout(x, **(options or {}))
        if self.training:
            x = F.dropout(x, 0.5)
        return F.dropout(x) if self.training and options else self.fc(x)


def test_what_is_thrown_away_is_found_with_its_place():
    known = slips_of({"": Thrown(), "fc": nn.Linear(4, 4)})
    assert [slip.code for slip in known[""]] == [
        "x.masked_fill(x > 0, 0.0)",
        "x.add(self.pos)",
        "F.relu(x)",
    ]
    assert {slip.kind for slip in known[""]} == {"dropped_result"}
    first = Thrown.forward.__code__.co_firstlineno
    assert [slip.place for slip in known[""]] == [
        f"test_of_classes.py:{first + i}" for i in (1, 2, 3)
    ]


def test_dropouts_that_are_not_told_of_the_mode_are_found():
    known = slips_of({"a": Dropping(), "b": Dropping()})
    assert [*known] == ["a"], "one class is told once"
    assert [slip.kind for slip in known["a"]] == ["dropout_in_evaluation", "dropout_in_evaluation"]


@pytest.mark.parametrize("model", [Sound(), nn.TransformerEncoderLayer(8, 2), nn.LSTM(3, 4)])
def test_sound_forwards_have_none(model):
    assert slips_of(dict(model.named_modules())) == {}


def test_a_class_without_source_has_none():
    made = {"nn": nn, "Model": Model}
    exec("class Typed(Model):\n    def forward(self, x):\n        x.relu()\n        return x", made)
    assert slips_of({"": made["Typed"]()}) == {}


@pytest.mark.parametrize(("shape", "count"), [((50, 1, 8), 3), ((50, 8), 0), ((1, 50, 8), 0)])
def test_places_that_are_counted_along_the_first_axis_are_found(shape, count):
    found = slips_of({"": Places(*shape)}).get("", ())
    assert [slip.kind for slip in found] == ["batch_as_places"] * count


class Zeros(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.pos = table

    def forward(self, x):
        return self.pos + x


@pytest.mark.parametrize(
    ("table", "count"),
    [
        (torch.zeros(1, 4, 8), 1),
        (nn.Parameter(torch.zeros(1, 4, 8)), 0),
        (torch.ones(1, 4, 8), 0),
        (torch.zeros(8), 0),
        (None, 0),
    ],
    ids=["plain", "parameter", "ones", "a vector", "none"],
)
def test_a_plain_tensor_of_zeros_that_is_added_is_found(table, count):
    found = slips_of({"": Zeros(table)}).get("", ())
    assert [slip.kind for slip in found] == ["adds_nothing"] * count


def noted(forward):
    @functools.wraps(forward)
    def wrapper(self, x):
        return forward(self, x)

    return wrapper


class Wrapped(Model):
    @noted
    def forward(self, x):
        x.masked_fill(x.abs() > x.abs().mean() + 3 * x.abs().std() + self.pos.abs().mean(), 0.0)
        return self.fc(x)


def test_of_a_decorated_forward_the_own_source_is_read_and_long_code_is_cut():
    (slip,) = slips_of({"": Wrapped()})[""]
    assert slip.code.startswith("... ")
    assert slip.code.endswith("self.pos.abs().mean(), 0.0)")
    assert len(slip.code) == 60
    assert (
        slip.place
        == f"test_of_classes.py:{Wrapped.forward.__wrapped__.__code__.co_firstlineno + 2}"
    )


class Turned(nn.Module):
    def __init__(self, is_torn):
        super().__init__()
        self.is_torn, self.lstm = is_torn, nn.LSTM(3, 4)


class Torn(Turned):
    def forward(self, x):
        n, t, c = x.shape
        return self.lstm(x.view(t, n, c))[0]


class TornBySize(Turned):
    def forward(self, x):
        n, t, c = x.size()
        return self.lstm(x.reshape((t, n, c)))[0]


class TornBehindAnother(Turned):
    def forward(self, x):
        return self.lstm(x.reshape(x.size(0), self.width, x.size(1)))[0]


class Split(Turned):
    def forward(self, x):
        x = x.view(x.size(0), 1, x.size(1)).view(x.shape[0], -1, x.shape[1])
        return self.lstm(x.view(-1, 4, x.size(1)).view(x.size(0), x.size(1), 2, 4))[0]


class Transposed(Turned):
    def forward(self, x):
        n, t, c = x.shape
        x = x.transpose(0, 1)
        x = x.reshape(t, n, c)
        return self.lstm(x.transpose(0, 1).reshape(n, t, c))[0].view(n, t, -1)


class Joined(Turned):
    def forward(self, x):
        n, _, c = x.shape
        h, w = x.shape[:2]
        return self.lstm(x.view(n * c, -1, 3))[0].view(w, h, -1)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (Torn, "x.view(t, n, c)"),
        (TornBySize, "x.reshape((t, n, c))"),
        (TornBehindAnother, "x.reshape(x.size(0), self.width, x.size(1))"),
        (Split, ""),
        (Transposed, ""),
        (Joined, ""),
    ],
)
def test_a_view_by_its_own_sizes_in_another_order_is_found(kind, code):
    known = slips_of({"a": kind(is_torn=True)})
    found = [(slip.code, slip.kind) for every in known.values() for slip in every]
    assert found == ([(code, "torn_view")] if code else [])


def test_files_with_hooks_of_saved_tensors_are_known(monkeypatch):
    assert not mentions_hooks(dict(nn.Sequential(nn.Linear(2, 2), nn.ReLU()).named_modules()))
    assert not mentions_hooks({"": Sound()})
    # A word of this file, as a call of torch.utils would be: check and point.
    monkeypatch.setattr(
        "taiyi_fx.findings.facts.source.of_classes.linecache.getlines", lambda _: [WORD]
    )
    assert mentions_hooks({"": Sound()})
    typed = type("Typed", (nn.Module,), {"__module__": "typed in by hand"})
    assert mentions_hooks({"": typed()})


WORD = "check" + "point(block, x)"


class Reader(nn.Module):
    def forward(self, x, lengths):
        lengths, order = lengths.sort(descending=True)
        packed = nn.utils.rnn.pack_padded_sequence(x[order], lengths, batch_first=True)
        return self.gru(packed)[1]


def test_rows_that_stay_sorted_are_found():
    (slip,) = slips_of({"": Reader()})[""]
    assert (slip.kind, slip.code) == ("left_sorted", "lengths.sort(descending=True)")


def test_an_embedding_that_is_given_the_indices_of_another_is_found():
    (slip,) = slips_of({"": Ratings()})[""]
    assert (slip.kind, slip.code) == ("foreign_lookup", "self.item_emb(user)")
