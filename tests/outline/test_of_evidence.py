"""What rules know by an outline."""

import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings import Evidence
from taiyi_fx.outline.of_evidence import with_outline
from tests.findings.given import evidence


class PostNorm(nn.Module):
    """A block whose norm is defined before what is executed before it."""

    def __init__(self):
        super().__init__()
        self.norm, self.down, self.up = nn.LayerNorm(8), nn.Linear(16, 8), nn.Linear(8, 16)

    def forward(self, x):
        return self.norm(x + self.down(torch.relu(self.up(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 2)
        self.blocks = nn.ModuleList(PostNorm() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_modules_come_in_the_order_of_execution_with_the_shapes_that_they_are_given():
    model = taiyi_fx.instrument(Net(), {"Linear": ["OutputRMS"]})
    model(torch.rand(3, 8))
    numbers = {(name, "OutputRMS"): 1.0 for name in ("head", "blocks.2.down", "blocks.2.up")}
    known = with_outline(evidence(numbers), model.monitor.outline)
    assert [*known.modules] == ["blocks.2.up", "blocks.2.down", "head"]
    assert known.flow.shape_before("head") == "3×8"
    assert known.flow.before_module("head") == []
    assert known.flow.modules_before("head", ["blocks.2.down"]) == {"blocks.2.down"}


def test_without_an_outline_evidence_stays_as_it_is():
    known = Evidence(())
    assert with_outline(known, None) is known


@pytest.fixture(scope="module")
def overflowed(tmp_path_factory):
    """A training in which a weight is so large that its outputs are infinite."""
    torch.manual_seed(0)
    run = tmp_path_factory.mktemp("runs") / "run"
    model = taiyi_fx.instrument(Net(), run=run)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        for step in range(12):
            if step == 10:
                with torch.no_grad():
                    model.blocks[2].up.weight.fill_(3e38)
            loss = model(torch.randn(16, 8)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            model.monitor.track(step)
            optimizer.step()
        model.monitor.close()
    return model.monitor.findings, taiyi_fx.open_run(run).findings


@pytest.mark.parametrize("which", [0, 1], ids=["monitor", "run"])
def test_an_overflow_is_named_where_it_arises_though_the_head_is_defined_first(overflowed, which):
    (found,) = (one for one in overflowed[which] if one.kind == "non_finite")
    assert found.module == "blocks.2.up"
