"""What autograd saved is looked at without running a hook of anyone's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx

_SAVED = (torch.ones(1, requires_grad=True).exp()).grad_fn._raw_saved_result
TELLS = hasattr(_SAVED, "unpack_hook")


class Checkpointed(nn.Module):
    """Embeds words twice within a checkpoint that counts batches and draws numbers."""

    def __init__(self):
        super().__init__()
        self.table, self.norm, self.drop = nn.Embedding(9, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.head = nn.Linear(4, 9)

    def forward(self, ids):
        x = checkpoint(lambda i: self.drop(self.norm(self.table(i))), ids, use_reentrant=False)
        return self.head(x)


def trained(model, called, log=lambda loss: None):
    torch.manual_seed(1)
    ids = torch.arange(9)
    for _ in range(2):
        loss = F.cross_entropy(called(ids) * 0.5, ids, torch.ones(9))
        log(loss)
        loss.backward()
    return [*model.state_dict().values(), *(p.grad for p in model.parameters()), torch.rand(2)]


def test_a_loss_that_is_logged_recomputes_no_checkpoint():
    torch.manual_seed(0)
    plain, model = Checkpointed(), Checkpointed()
    model.load_state_dict(plain.state_dict())
    watched = taiyi_fx.instrument(model, {"head": ["OutputRMS"]})
    expected = trained(plain, plain)
    found = trained(model, watched, lambda loss: watched.monitor.log("loss", loss))
    assert all(map(torch.equal, found, expected))


@pytest.mark.skipif(not TELLS, reason="this torch does not tell of hooks")
def test_a_loss_that_is_logged_runs_no_hook_of_saved_tensors():
    unpacked, watched = [], taiyi_fx.instrument(Checkpointed().head, {"": ["OutputRMS"]})

    def unpack(x):
        unpacked.append(x)
        return x

    table, ids = nn.Embedding(9, 4), torch.arange(9)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
        loss = F.cross_entropy(watched(table(ids)) * torch.ones(9), ids, torch.ones(9))
    watched.monitor.log("loss", loss)
    assert not unpacked
    loss.backward()
    assert unpacked


@pytest.mark.parametrize(
    "loss",
    [
        lambda y, ids: F.cross_entropy(y + 1.0, ids),
        lambda y, ids: F.cross_entropy(torch.ones(9) + y, ids),
        lambda y, ids: F.nll_loss(F.log_softmax(y, 1) + 1e-7, ids),
        lambda y, ids: F.binary_cross_entropy_with_logits(y - 2.0, F.one_hot(ids, 9).float()),
        lambda y, ids: F.ctc_loss((y + 0.1).view(9, 1, 9).log_softmax(2), ids[None, 1:3], [9], [2]),
        lambda y, ids: y.flatten().view(27, 3).square().mean(),
    ],
    ids=["of logits", "of a constant", "of logarithms", "of yes or no", "of texts", "of a view"],
)
def test_losses_of_what_is_moved_by_a_constant_are_looked_at(loss):
    model = nn.Linear(9, 9)
    watched = taiyi_fx.instrument(model, {"": ["OutputRMS"]}, strict=True)
    value = loss(watched(torch.eye(9)), torch.arange(9))
    watched.monitor.log("loss", value)  # raises where it cannot be looked at
    value.backward()
    watched.monitor.track(0)
    assert not [found for found in watched.monitor.findings if found.kind == "rule_failed"]
