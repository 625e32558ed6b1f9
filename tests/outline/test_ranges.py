"""Ranges: levels of very many parts."""

from torch import nn

from taiyi_fx.outline.view import opened, shown
from tests.outline.outlined import labels, outlined


def test_a_level_of_very_many_different_boxes_is_cut_into_stretches():
    outline = outlined(
        nn.Sequential(*(nn.Linear(i + 1, i + 2) for i in range(500))), {"0": ["WeightNorm"]}
    )
    assert len(labels(outline)) <= 48
    assert {i.kind for i in outline.items if i.parent == 0} == {"range"}
    assert sum(item.kind == "module" for item in outline.items) == 501
    assert len(shown(outline, opened(outline)).boxes) <= 60


def test_a_level_that_is_small_enough_stays_as_it_is():
    outline = outlined(nn.Sequential(*(nn.Linear(i + 1, i + 2) for i in range(40))))
    assert not [item for item in outline.items if item.kind == "range"]
