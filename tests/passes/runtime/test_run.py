"""What a forward under way is read as."""

import threading

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.passes.runtime.run import Run
from tests.hard_models import quietly
from tests.passes.runtime.given import due


def test_each_set_of_due_readings_has_one_name():
    run = Run(False)
    nothing = run.due_key
    run.set_due(due("fc"))
    first = run.due_key
    run.set_due(frozenset())
    assert run.due_key == nothing
    run.set_due(due("fc"))
    assert run.due_key == first != nothing


@pytest.mark.parametrize(
    ("training", "grad", "record_eval", "mode"),
    [(True, True, False, "train"), (True, False, False, None), (False, False, False, None),
     (False, False, True, "eval"), (False, True, True, "eval")],
)  # fmt: skip
def test_a_forward_is_read_by_its_mode(training, grad, record_eval, mode):
    run, root = Run(record_eval), nn.Identity().train(training)
    with torch.set_grad_enabled(grad):
        assert run.mode_of(root) is None
        run.set_due(due("fc"))
        assert run.mode_of(root) == mode


def test_what_another_thread_calls_is_not_here():
    run, seen = Run(False), []
    run.begin("train")
    thread = threading.Thread(target=lambda: seen.append(run.is_here))
    thread.start()
    thread.join()
    assert run.is_here
    assert seen == [False]
    run.end()
    assert not run.is_here


def test_what_backward_runs_again_does_not_count():
    run, root = Run(False), nn.Identity()
    run.set_due(due("fc"))
    x, seen = torch.ones(1, requires_grad=True), []
    x.register_hook(lambda g: seen.append((run.is_in_backward, run.mode_of(root))))
    x.sum().backward()
    assert seen == [(True, None)]
    assert not run.is_in_backward


def test_what_a_trace_records_is_not_read_and_traces_agree():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(3, 4)
    probed = taiyi_fx.instrument(model, {nn.Module: ["OutputRMS", "OutputGradRMS"]})
    assert torch.equal(quietly(torch.jit.trace, probed, (x,))(x), model(x))
    probed(x).sum().backward()
    probed.monitor.track(0)
    assert len(probed.monitor.records) == 6


def test_a_transform_of_torch_func_is_not_read():
    run, seen = Run(False), []
    run.set_due(due("fc"))
    run.begin("train")
    torch.func.grad(lambda x: seen.append(run.mode_here()) or x)(torch.ones(()))
    assert seen == [None]
    assert run.mode_here() == "train"
