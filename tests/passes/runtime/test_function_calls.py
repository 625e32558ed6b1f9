"""Calls of functions in forwards that stayed Python."""

import contextlib
import operator
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from taiyi_fx.passes.ir import Change, FunctionGroup, Reading, Site, Target
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.runtime.function_calls import FunctionCalls
from taiyi_fx.passes.runtime.run import Calls, Run
from taiyi_fx.reductions.attention import HeadSquares
from tests.passes.runtime.given import due, plan_of

FOLLOWED = F.multi_head_attention_forward


class Inner(nn.Module):
    def forward(self, x):
        return F.gelu(x)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return F.gelu(self.inner(x)) @ x


def calls_of(module, sites, plan):
    table, run = SlotTable(plan), Run(False)
    calls = FunctionCalls(module, sites, table, run, {site: Calls() for site in sites})
    return calls, table, run


def norms(table, site):
    table.measure()
    table.board.held.settle()
    slots = table.at("train", site, 0)
    return {r.site.port: None if s.state is None else float(s.state[0]) for r, s in slots.items()}


def test_only_calls_of_the_modules_own_forward_are_read():
    model, x = Outer(), torch.randn(3, 3)
    sites = {"gelu()": F.gelu, "operator.matmul()": operator.matmul}
    calls, table, run = calls_of(model, sites, plan_of(*sites))
    assert not calls.are_watched()
    run.set_due(due(*sites))
    assert calls.are_watched()
    y = calls.around(model.forward, "train")(x)
    assert torch.equal(y, model(x))
    assert norms(table, "gelu()")["output"] == pytest.approx(F.gelu(F.gelu(x)).norm().item())
    assert norms(table, "operator.matmul()")["output"] == pytest.approx(y.norm().item())
    assert table.calls("train", "gelu()") == 1


def test_an_edit_is_made_whatever_is_due_and_refused_in_compiled_code():
    model, x = Outer(), torch.randn(3, 3)
    plan = {"gelu()": Target("gelu()", frozenset(), (Change(Site("output"), torch.neg),))}
    calls, _, _ = calls_of(model, {"gelu()": F.gelu}, plan)
    assert calls.are_watched()
    assert torch.equal(calls.around(model.forward, None)(x), -model(x))
    with pytest.raises(RuntimeError, match="the edit of 'gelu\\(\\)' cannot be made in compiled"):
        calls.refuse_in_compiled_code()


class _Kept:
    """Keeps the name and the number of arguments of each call."""

    def measure_call(self, call, result):
        return (torch.tensor([len(call.args), len(call.kwargs), result.ndim]),)

    def merge(self, a, b):
        return (a[0] + b[0],)

    def scale(self, state, factor):
        return state

    def finish(self, state):
        return state[0]


def test_all_functions_of_a_group_are_one_site_also_within_others():
    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.MultiheadAttention(4, 2)

        def forward(self, x):
            x = F.gelu(F.relu(x), approximate="tanh")
            inner = self.inner
            args = (x, x, x, 4, 2, inner.in_proj_weight, inner.in_proj_bias, None, None, False, 0.0)
            out = inner.out_proj
            return F.multi_head_attention_forward(*args, out.weight, out.bias)[0]

    group = FunctionGroup(
        "group", lambda module: (F.gelu, F.softmax), through=(F.multi_head_attention_forward,)
    )
    model, x = Attending(), torch.randn(3, 1, 4)
    reading = Reading(Site("call"), _Kept())
    plan = {"group()": Target("group()", frozenset({reading}))}
    calls, table, run = calls_of(model, {"group()": group}, plan)
    run.set_due(frozenset({("group()", reading)}))
    assert torch.equal(calls.around(model.forward, "train")(x), model(x))
    assert table.calls("train", "group()") == 2
    kept = [table.at("train", "group()", call)[reading].found for call in range(2)]
    assert [state[0].tolist() for state in kept] == [[1, 1, 3], [1, 3, 3]]


def test_one_call_may_be_of_several_sites():
    model, x = Outer(), torch.randn(3, 3)
    group = FunctionGroup("group", lambda module: (F.gelu, F.relu))
    sites = {"gelu()": F.gelu, "group()": group}
    calls, table, run = calls_of(model, sites, plan_of(*sites))
    run.set_due(due(*sites))
    assert torch.equal(calls.around(model.forward, "train")(x), model(x))
    assert norms(table, "gelu()") == norms(table, "group()")
    assert norms(table, "gelu()")["output"] is not None


@torch.compile(backend="aot_eager", fullgraph=True)
def compiled_gelu(x):
    return F.gelu(x)


class CallsCompiled(nn.Module):
    def forward(self, x):
        return compiled_gelu(x) @ F.relu(x)


def test_a_compiled_function_that_a_forward_calls_runs_as_it_is():
    model, x = CallsCompiled(), torch.randn(3, 3)
    sites = {"gelu()": F.gelu, "relu()": F.relu}
    calls, table, run = calls_of(model, sites, plan_of(*sites))
    run.set_due(due(*sites))
    assert torch.equal(calls.around(model.forward, "train")(x), model(x))
    assert norms(table, "relu()")["output"] == pytest.approx(F.relu(x).norm().item())
    assert norms(table, "gelu()")["output"] is None
    assert "gelu()" in table.board.compiled


def test_an_edit_in_a_compiled_function_that_a_forward_calls_is_refused():
    model = CallsCompiled()
    plan = {"gelu()": Target("gelu()", frozenset(), (Change(Site("output"), torch.neg),))}
    calls, _, _ = calls_of(model, {"gelu()": F.gelu}, plan)
    with pytest.raises(RuntimeError, match="cannot be made in compiled code"):
        calls.around(model.forward, None)(torch.randn(3, 3))


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.mha = nn.MultiheadAttention(4, 2)

    def forward(self, x):
        return self.mha(x, x, x)[0]


class Takes(TorchFunctionMode):
    """Takes note of each function, and calls it."""

    def __init__(self):
        super().__init__()
        self.taken = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.taken.append(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("count", [1, 2])
def test_modes_around_the_model_are_shown_the_functions_that_are_followed(count):
    model, x = Attends(), torch.randn(3, 1, 4)
    group = FunctionGroup("attention", lambda m: (F.softmax,), through=(FOLLOWED,))
    calls, table, run = calls_of(model.mha, {"a()": group}, plan_of("a()"))
    run.set_due(due("a()"))
    outer, forward = [Takes() for _ in range(count)], model.mha.forward
    seen = []
    for called in (forward, calls.around(forward, "train")):
        with contextlib.ExitStack() as modes:
            for mode in outer:
                modes.enter_context(mode)
            made = called(x, x, x)
        seen.append((made, [[*mode.taken] for mode in outer]))
        assert torch.overrides._get_current_function_mode_stack() == []
        for mode in outer:
            mode.taken.clear()
    (expected, taken), (found, shown) = seen
    assert all(map(torch.equal, expected, found))
    assert FOLLOWED in taken[0]
    assert shown == taken
    assert table.calls("train", "a()") == 1


class Weighs(nn.Module):
    def forward(self, x):
        weights = F.softmax(x @ x.mT, -1)
        return F.dropout(weights, 0.0) @ x


def test_modes_around_the_model_see_nothing_of_the_search_for_a_product():
    model, x, reduction = Weighs(), torch.randn(2, 1, 3, 3), HeadSquares(heads=1)
    group = FunctionGroup("attention", lambda m: (F.softmax,), of_scores=(F.softmax,))
    reading = Reading(Site("call"), reduction)
    plan = {"a()": Target("a()", frozenset({reading}))}
    calls, table, run = calls_of(model, {"a()": group}, plan)
    run.set_due(frozenset({("a()", reading)}))
    taken = []
    for called in (model.forward, calls.around(model.forward, "train")):
        with Takes() as mode:
            called(x)
        taken.append(mode.taken)
    assert taken[0] == taken[1]
    (slot,) = table.at("train", "a()", 0).values()
    assert slot.state is not None


class Logged(torch.Tensor):
    log: ClassVar[list[object]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(func)
        return super().__torch_function__(func, types, args, kwargs)


def test_classes_of_tensors_are_shown_the_functions_that_are_followed():
    model, x = Attends(), torch.randn(3, 1, 4).as_subclass(Logged)
    group = FunctionGroup("attention", lambda m: (F.softmax,), through=(FOLLOWED,))
    calls, _, run = calls_of(model.mha, {"a()": group}, plan_of("a()"))
    run.set_due(due("a()"))
    shown = []
    for called in (model.mha.forward, calls.around(model.mha.forward, "train")):
        Logged.log.clear()
        called(x, x, x)
        shown.append(Logged.log[:])
    assert FOLLOWED in shown[0]
    assert shown[0] == shown[1]
