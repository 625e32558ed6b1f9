"""Views that exchange two sizes."""

import pytest
import torch

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.views import torn_views

TORN = {
    "rows and features": ((12, 5), lambda x: x.view(5, 12)),
    "a reshape of what is no view": ((12, 5), lambda x: x.flip(0).reshape(5, 12).mT),
    "images": ((12, 5, 4, 4), lambda x: x.view(5, 12, 4, 4)),
    "heads": ((3, 10, 8), lambda x: x.view(3, 4, 10, 2)),
    "heads of one sample": ((1, 10, 8), lambda x: x.view(1, 4, 10, 2)),
}
SOUND = {
    "flattened": ((12, 5), lambda x: x.view(60)),
    "split": ((12, 6), lambda x: x.view(12, 2, 3)),
    "joined and split": ((12, 5, 6), lambda x: x.view(60, 2, 3)),
    "heads": ((3, 10, 8), lambda x: x.view(3, 10, 4, 2).transpose(1, 2)),
    "transposed": ((12, 5), lambda x: x.t().reshape(5, 12)),
    "a square": ((6, 6), lambda x: x.view(6, 6)),
    "windows": ((3, 10, 4), lambda x: x.view(3, 5, 2, 4)),
    "shifted positions": ((2, 3, 10, 11), lambda x: x.view(2, 3, 11, 10)),
    "shifted positions of a memory": ((2, 3, 5, 10), lambda x: x.view(2, 3, 10, 5)[:, :, 1:]),
}


def torn(case):
    shape, view = case
    return [*torn_views(Uses.of((view(torch.ones(shape, requires_grad=True) * 2) * 2).sum()))]


@pytest.mark.parametrize("case", TORN.values(), ids=TORN)
def test_exchanged_sizes_are_found_with_both_shapes(case):
    ((_, given, made),) = torn(case)
    assert given == case[0]
    assert len(made) >= 2


@pytest.mark.parametrize("case", SOUND.values(), ids=SOUND)
def test_axes_that_are_split_and_joined_are_none(case):
    assert torn(case) == []
