"""Fields of one embedding."""

import pytest
import torch
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.fields import Fields, overlapping_fields

SIZES = (40, 80, 12, 6)
FIRST = torch.stack([torch.arange(96) % n for n in SIZES], 1)
OFFSETS = torch.tensor([0, 40, 120, 132])


def found(indices, rows=138):
    table = nn.Embedding(rows, 3)
    uses = Uses.of(table(indices).square().mean(), {id(table.weight): "table"})
    return [*overlapping_fields(uses)]


def test_fields_that_all_begin_at_the_first_row_are_found():
    assert found(FIRST) == [Fields("table", 138, SIZES)]


@pytest.mark.parametrize(
    ("indices", "rows"),
    [
        (FIRST + OFFSETS, 138),
        (FIRST, 1000),
        (FIRST[:16], 138),
        (FIRST[:, :2], 120),
        (FIRST[:, 0], 138),
        (torch.randint(60, (96, 3)), 180),
        (torch.randint(138, (96, 4)), 138),
    ],
    ids=["offsets", "a large one", "few samples", "two", "one", "alike", "words"],
)
def test_others_are_none(indices, rows):
    assert found(indices, rows) == []
