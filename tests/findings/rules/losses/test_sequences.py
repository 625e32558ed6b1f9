"""Losses by targets that are the inputs, and by the first place of causal attention."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.facts.attributes import attributes_of
from taiyi_fx.findings.facts.held_targets import HeldTargets
from taiyi_fx.findings.facts.ignored import IgnoredClass
from taiyi_fx.findings.rules.losses.sequences import copied_targets, held_targets, ignored_classes
from tests.findings.given import evidence, knowing


class Model(nn.Module):
    def __init__(self, *, is_causal):
        super().__init__()
        self.is_causal, self.words = is_causal, nn.Embedding(11, 8)
        self.qkv, self.head = nn.Linear(8, 24), nn.Linear(8, 11)

    def forward(self, ids):
        q, k, v = self.qkv(self.words(ids)).chunk(3, -1)
        return self.head(F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal))


def found_in(is_causal, shift, logs_first=True, kind="copied_targets"):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(Model(is_causal=is_causal), "transformer")
    for step in range(10):
        ids = torch.randint(11, (4, 12))
        made, targets = watched(ids[:, : 12 - shift]), ids[:, shift:]
        loss = F.cross_entropy(made.flatten(0, 1), targets.flatten())
        if logs_first:
            watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
    return [one for one in watched.monitor.findings if one.kind == kind]


@pytest.mark.parametrize(
    ("layers", "severity"),
    [
        ([nn.LSTM(8, 8)], "warning"),
        ([nn.GRU(8, 8, bidirectional=True)], "note"),
        ([nn.LSTM(8, 8), nn.LSTM(8, 8)], "note"),
        ([nn.Linear(8, 8)], "note"),
    ],
    ids=["forwards", "both ways", "a decoder", "none"],
)
def test_a_recurrent_layer_that_copies_is_a_warning(layers, severity):
    attributes = attributes_of(dict(nn.ModuleList(layers).named_modules()))
    graphs = {"loss": LossGraph(copied="words")}
    known = knowing(evidence({("", "loss"): 1.0}), attributes=attributes, loss_graphs=graphs)
    assert [one.severity for one in copied_targets(known)] == [severity]


@pytest.mark.parametrize(("is_causal", "severity"), [(True, "alert"), (False, "note")])
def test_labels_that_are_not_shifted_are_told(is_causal, severity):
    (found,) = found_in(is_causal, 0)
    assert (found.severity, found.module) == (severity, "")
    assert "'words'" in found.text


@pytest.mark.parametrize("shift", [0, 1])
def test_a_decoder_that_is_given_its_targets_is_an_alert_though_its_encoder_sees_all(shift):
    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.source, self.target, self.head = (
                *(nn.Embedding(11, 8) for _ in "st"),
                nn.Linear(8, 11),
            )
            self.both = nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True)

        def forward(self, source, target):
            mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
            return self.head(self.both(self.source(source), self.target(target), tgt_mask=mask))

    torch.manual_seed(0)
    watched = taiyi_fx.instrument(Translator(), "transformer")
    for step in range(10):
        source, target = torch.randint(11, (4, 12)), torch.randint(11, (4, 12 + shift))
        made = watched(source, target[:, :12])
        loss = F.cross_entropy(made.flatten(0, 1), target[:, shift:].flatten())
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
    found = [one.severity for one in watched.monitor.findings if one.kind == "copied_targets"]
    assert found == ["alert"] * (shift == 0)


class Pairs(nn.Module):
    """Two sides of as many places as there are pairs."""

    def __init__(self):
        super().__init__()
        self.places, self.head = nn.Embedding(6, 8), nn.Linear(8, 8)

    def forward(self, left, right):
        left, right = (self.head(x + self.places(torch.arange(6))).mean(1) for x in (left, right))
        return left @ right.T


def test_pairs_of_a_batch_that_are_as_many_as_places_are_none():
    watched = taiyi_fx.instrument(Pairs(), "transformer")
    for step in range(10):
        left = torch.randn(6, 6, 8)
        loss = F.cross_entropy(watched(left, left + 0.1), torch.arange(6))
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
    assert not any(found.kind == "copied_targets" for found in watched.monitor.findings)


@pytest.mark.parametrize(("shift", "words"), [(2, "two"), (3, "three")])
def test_labels_that_are_shifted_twice_are_told(shift, words):
    (found,) = found_in(True, shift, kind="shifted_targets")
    assert (found.severity, found.module) == ("warning", "")
    assert f"'words' is given {words} places later" in found.text


def test_labels_that_are_shifted_once_are_not_shifted_twice():
    assert found_in(True, 1, kind="shifted_targets") == []


def test_labels_that_are_shifted_are_none():
    assert found_in(True, 1) == []


def test_after_a_backward_nobody_knows():
    assert found_in(True, 0, logs_first=False) == []


class Causal(nn.Module):
    def __init__(self, place, *, is_causal):
        super().__init__()
        self.words, self.qkv, self.head = nn.Embedding(9, 8), nn.Linear(8, 24), nn.Linear(8, 3)
        self.place, self.is_causal = place, is_causal

    def forward(self, ids):
        q, k, v = self.qkv(self.words(ids)).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        x = mixed.transpose(1, 2).flatten(2)
        return self.head(x.mean(1) if self.place is None else x[:, self.place])


@pytest.mark.parametrize(
    ("place", "is_causal", "is_told"),
    [(0, True, True), (-1, True, False), (None, True, False), (0, False, False)],
)
def test_the_first_place_alone_is_told_of_causal_attention(place, is_causal, is_told):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(Causal(place, is_causal=is_causal), "transformer")
    for step in range(4):
        loss = F.cross_entropy(watched(torch.randint(9, (5, 6))), torch.randint(3, (5,)))
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "first_place"]
    assert len(found) == is_told
    assert all("sees itself, and nothing of the rest" in one.text for one in found)


LENGTHS = torch.tensor([12, 10, 9, 8, 6, 5, 4, 3])


def found_of_padding(take, *, left_out=-100, pads=True, is_causal=True):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(Model(is_causal=is_causal), "transformer")
    for step in range(3):
        ids = torch.randint(1, 11, (8, 12))
        ids = torch.where(torch.arange(12) < LENGTHS[:, None], ids, 0) if pads else ids
        made, targets = take(watched(ids[:, :-1]), ids)
        loss = F.cross_entropy(made, targets, ignore_index=left_out)
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
    return [one.kind for one in watched.monitor.findings if "padd" in one.kind]


def of_all(made, ids):
    return made.flatten(0, 1), ids[:, 1:].flatten()


def of_last(made, ids):
    return made[:, -1], ids[:, 0]


@pytest.mark.parametrize(
    ("take", "options", "kinds"),
    [
        (of_all, {}, ["padded_targets"]),
        (of_all, {"left_out": 0}, []),
        (of_all, {"pads": False}, []),
        (of_last, {}, ["padded_place"]),
        (of_last, {"pads": False}, []),
        (of_all, {"left_out": 0, "is_causal": False}, ["unmasked_padding"]),
        (of_all, {"is_causal": False, "pads": False}, []),
    ],
)
def test_padding_among_targets_and_at_the_one_place_that_is_taken_is_told(take, options, kinds):
    assert found_of_padding(take, **options) == kinds


def test_a_class_that_is_left_out_with_the_padding_is_told():
    graphs = {"loss": LossGraph(ignored=IgnoredClass(0, 0.4, 0.3))}
    known = knowing(evidence({("", "loss"): 1.0}), loss_graphs=graphs)
    (found,) = ignored_classes(known)
    assert (found.kind, found.severity) == ("ignored_class", "warning")
    assert found.text == (
        "'loss' leaves out class 0 by ignore_index, 40% of its targets, and at 30% of these places "
        "tokens stand that are no padding"
    )
    assert [*ignored_classes(knowing(known, loss_graphs={"loss": LossGraph()}))] == []


def test_targets_that_the_model_is_given_are_an_alert():
    known = evidence({("", "loss"): 1.0})
    graph = LossGraph(held=HeldTargets("gru", (29, 3, 1, 2), 30))
    (found,) = held_targets(knowing(known, loss_graphs={"loss": graph}))
    assert (found.kind, found.severity, found.module) == ("held_targets", "alert", "")
    assert "among the 30 entries of each sample that 'gru' is given, at 29, 3, 1, ..." in found.text
    assert [*held_targets(knowing(known, loss_graphs={"loss": LossGraph()}))] == []
