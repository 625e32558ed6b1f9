"""What surrounds a forward of the instrumented model."""

import sys

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.one_rank import one_rank
from tests.passes.runtime.given import Python, compiled, due, found, run


class Fails(Python):
    fails = False

    def forward(self, x):
        with torch.enable_grad():
            y = self.fc(x)
            if self.fails:
                raise KeyError("mine")
            return self.head(y)


class CallsItself(Python):
    def forward(self, x, depth):
        return x if depth == 0 else self(self.fc(x), depth - 1)


def test_a_model_may_call_itself_as_often_as_pythons_stack_allows():
    model = CallsItself()
    plain = model(torch.randn(2, 4), depth := 190)
    made = compiled(model, "fc")
    made.installation.set_due(due("fc"))
    made.session(model, (plain, depth), {})
    assert found(made, "fc", depth - 1)["output"] > 0


def test_a_forward_that_fails_was_none():
    model, x = Fails(), torch.randn(2, 4)
    made = compiled(model, "fc")
    made.installation.set_due(due("fc"))
    run(made, x)
    before = found(made, "fc")["output"]
    model.fails = True
    limit = sys.getrecursionlimit()
    with pytest.raises(KeyError, match="mine"):
        run(made, 100 * x)
    assert found(made, "fc")["output"] == before
    assert sys.getrecursionlimit() == limit
    assert not made.installation.run.inside


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_and_no_grad_are_not_read(training):
    model = Python().train(training)
    made = compiled(model, "fc")
    made.installation.set_due(due("fc"))
    with torch.set_grad_enabled(not training):
        run(made, torch.randn(2, 4))
    assert not made.table.states()


def test_a_part_that_is_called_by_itself_is_read_as_a_forward():
    made, x = compiled(Python(), "fc"), torch.randn(2, 4)
    made.installation.set_due(due("fc"))
    made.root.fc(x)
    assert not made.table.states()
    with made.session.reading():
        made.root.fc(x)
    assert found(made, "fc")["output"] == pytest.approx(made.root.fc(x).norm().item())


def test_the_first_read_forward_shows_what_flows():
    made = compiled(nn.Sequential(Python()), "0.fc")
    made.installation.set_due(due("0.fc"))
    assert made.session.flow is None
    run(made, torch.randn(2, 4))
    flow = made.session.flow
    assert flow.problem is None
    assert flow.shapes["0.fc", 0].outputs == ((2, 4),)


@pytest.mark.parametrize("throws", [True, False])
def test_a_step_within_join_is_one_that_ranks_may_end_one_by_one(throws):
    made = compiled(Python(), "fc")
    made.installation.set_due(due("fc"))
    session = made.session

    def train():
        ddp = DistributedDataParallel(made.root)
        with ddp.join(throw_on_early_termination=throws):
            with ddp._inside_ddp_forward():
                run(made, torch.randn(2, 4))
            assert session.is_uneven == (not throws)
            is_alone, _ = session.begin_tracking()
            assert session.is_uneven == (not throws)
            session.end_tracking(is_alone)
        assert not session.is_uneven
        run(made, torch.randn(2, 4))  # outside of the wrapper
        assert not session.is_uneven

    with one_rank():
        train()
