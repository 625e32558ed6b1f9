"""All that is known of a model."""

from dataclasses import fields

from torch import nn

from taiyi_fx.findings import ModelFacts, Slip


def test_each_fact_is_of_the_model_as_it_is_now():
    shared = nn.Linear(2, 2).requires_grad_(False)
    model = nn.Sequential(shared, shared, nn.Dropout(0.3), nn.GRU(2, 2), nn.BatchNorm1d(2)).eval()
    model[0].register_forward_hook(lambda *_: None)
    modules = dict(model.named_modules())
    slips = {"": [Slip("x.add(1)", "model.py:1", "dropped_result")]}
    facts = ModelFacts.of(modules, slips)
    assert facts.attributes.keys() == modules.keys()
    assert facts.settings["2"].drops == 0.3
    assert [*facts.hooks] == [*facts.frozen] == ["0"]
    assert facts.evaluates == "Dropout"
    assert (facts.batch_axes, facts.repeated, facts.slips) == ({"3": 1}, {"": 2}, slips)
    assert not facts.frozen_adapters
    assert not facts.same_masks


def test_of_no_model_nothing_is_known():
    assert not any(getattr(ModelFacts(), each.name) for each in fields(ModelFacts))
