"""Samples that are copies of others."""

from dataclasses import replace

import pytest

from taiyi_fx.findings import GivenInputs, LayerSettings, LossGraph, ModelFacts, Repeats
from taiyi_fx.findings.facts.logits import Logits
from taiyi_fx.findings.rules.values.repeated_samples import repeated_samples, repeated_views
from tests.findings.given import evidence, knowing

TWICE = Repeats(64, 32, 64, is_doubled=True)
COPIED = Repeats(64, 27, 64, is_doubled=False, codes=frozenset(range(27)))
OTHERS = [COPIED._replace(codes=frozenset(range(30 * i, 30 * i + 27))) for i in (1, 2, 3)]
OTHER = Repeats(64, 64, 64, is_doubled=False)
DROPS = ModelFacts(settings={"drop": LayerSettings(0.1, 0, 0, 0)})


FIRST = [OTHER] * 5


def found_for(*looks, model=None, graph=None):
    known = evidence({("", "loss"): 1.0})
    inputs = GivenInputs(repeats=looks)
    known = replace(known, inputs=inputs, model=model or ModelFacts())
    return [*repeated_samples(knowing(known, loss_graphs={"loss": graph or LossGraph()}))]


def test_batches_of_which_each_sample_is_there_twice_are_told_without_dropout():
    logits = Logits("", 64, 64, is_output=False, is_mean=True, is_whole=True)
    (found,) = found_for(TWICE, TWICE, TWICE, graph=LossGraph(logits=logits))
    assert (found.kind, found.severity, found.module) == ("repeated_samples", "warning", "")
    for graph in (LossGraph(), LossGraph(logits=logits._replace(module="head"))):
        (other,) = found_for(TWICE, TWICE, TWICE, graph=graph)
        assert other.severity == "note"
    assert "each sample of the batch is there twice, to the last bit (32 of 64" in found.text
    assert "random state of its own" in found.advice
    assert found_for(TWICE, TWICE, TWICE, model=DROPS) == []


def test_batches_with_many_copies_are_told():
    (found,) = found_for(*FIRST, COPIED, *OTHERS[:2], OTHER)
    assert "only 27 of the 64 samples of a batch are different" in found.text
    assert "in 3 of the 4 batches" in found.text
    assert "references to an array" in found.advice


@pytest.mark.parametrize(
    "looks",
    [
        (TWICE, TWICE),
        (TWICE, TWICE, OTHER),
        (COPIED, OTHERS[0]),
        (COPIED, COPIED, COPIED),
        (COPIED, *OTHERS[:2], *[OTHER] * 4),
        [x._replace(continuous=20) for x in OTHERS],
        [x._replace(different=16) for x in OTHERS],
        [x._replace(different=1) for x in OTHERS],
        [x._replace(different=50) for x in OTHERS],
    ],
    ids="few mixed twice finite seldom codes even constant replacement".split(),
)
def test_others_are_not(looks):
    assert found_for(*looks) == found_for(*FIRST, *looks) == []


def test_a_memory_may_begin_with_few():
    assert found_for(*OTHERS, COPIED, *FIRST) == []


def test_a_model_that_is_run_twice_on_the_same_is_told_where_the_loss_compares():
    logits = Logits("", 64, 64, is_output=False, is_mean=True, is_whole=True)
    known = evidence({("", "loss"): 1.0})
    for graph, count in (
        (LossGraph(same_calls=("enc",), logits=logits), 1),
        (LossGraph(same_calls=("enc",), pulled_alone="head"), 1),
        (LossGraph(same_calls=("enc",)), 0),
        (LossGraph(logits=logits), 0),
    ):
        found = [*repeated_views(knowing(known, loss_graphs={"loss": graph}))]
        assert [(one.kind, one.severity) for one in found] == [
            ("repeated_samples", "warning")
        ] * count
        assert all("from 'enc' on" in one.text for one in found)
