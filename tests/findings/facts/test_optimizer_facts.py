"""All that is known of the optimizers of a model."""

from dataclasses import fields

import torch
from torch import nn

from taiyi_fx.findings import OptimizerFacts


def test_each_fact_is_of_all_optimizers():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    model.kept = [nn.Linear(2, 2)]
    optimizers = [
        torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.5, weight_decay=0.2),
        torch.optim.AdamW([*model[1].parameters(), nn.Parameter(torch.ones(1))], lr=0.2),
    ]
    model.kept[0](model(torch.randn(3, 2))).sum().backward()
    for one in optimizers:
        one.step()
    facts = OptimizerFacts.of(dict(model.named_modules()), optimizers)
    assert [group.rule for group in facts.group_settings] == ["sgd", "adam"]
    assert facts.groups == {"0": (0, 0.1), "1": (1, 0.2)}
    assert (facts.decays["0"], facts.shrinkage["0"]) == (0.2, 0.4)
    assert facts.step_counts == {"1": 1}
    assert (facts.left_out, facts.strangers, facts.hidden) == ({"2"}, 1, {("", "kept"): 1})
    assert facts.undecaying_moments == {}


def test_of_no_optimizer_nothing_is_known():
    assert not any(getattr(OptimizerFacts(), each.name) for each in fields(OptimizerFacts))
