"""Targets of a CTC loss that are its blank."""

import pytest
import torch
import torch.nn.functional as F

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.blanks import blank_targets

PADDED = torch.tensor([[1, 2, 0, 3], [0, 4, 0, 0], [5, 0, 0, 0]])
JOINED = torch.tensor([1, 2, 0, 3, 0, 4, 5])


def loss(targets, lengths, blank=0):
    torch.manual_seed(0)
    scores = torch.randn(12, 3, 7, requires_grad=True).log_softmax(-1)
    given = torch.full((3,), 12) if torch.is_tensor(lengths) else (12, 12, 12)
    return F.ctc_loss(scores, targets, given, lengths, blank=blank)


@pytest.mark.parametrize("lengths", [(4, 2, 1), torch.tensor([4, 2, 1])], ids=["tuple", "tensor"])
@pytest.mark.parametrize("targets", [PADDED, JOINED], ids=["padded", "joined"])
def test_those_within_their_lengths_count(targets, lengths):
    assert blank_targets(Uses.of(loss(targets, lengths))) == pytest.approx(2 / 7)
    assert blank_targets(Uses.of(loss(targets, lengths, blank=6))) == 0


def test_padding_is_none():
    assert blank_targets(Uses.of(loss(PADDED[2:].expand(3, 4), (1, 1, 1)))) == 0


def test_of_other_losses_and_after_a_backward_there_are_none():
    of_ctc = loss(JOINED, (4, 2, 1))
    of_ctc.backward()
    assert blank_targets(Uses.of(of_ctc)) == 0
    assert blank_targets(Uses.of(torch.ones(3, requires_grad=True).sum())) == 0
