"""Calls in compiled code, handed over to be read."""

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.attention.flex_attention import flex_attention
from torch.overrides import TorchFunctionMode

from taiyi_fx.passes.runtime.compiled_calls import CompiledCalls

FLEX = torch.ops.higher_order.flex_attention
compiled = torch.compile(flex_attention, backend="aot_eager", fullgraph=True)


class Attending(nn.Module):
    def forward(self, q):
        return compiled(q, q, q)


class Noting(TorchFunctionMode):
    def __init__(self, functions, module):
        super().__init__()
        self.calls = CompiledCalls(functions, module)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if torch.compiler.is_compiling():
            self.calls.note(func, args, made)
        return made


def noted(functions, module, *given):
    torch.compiler.reset()
    mode = Noting(functions, module)
    with mode:
        made = module(*given)
    return made, mode.calls


@torch.compile(backend="aot_eager", fullgraph=True)
def chained(q):
    return flex_attention(q.sin(), q, flex_attention(q, q, q))


class Chained(nn.Module):
    def forward(self, q):
        return chained(q)


# What torch says of itself.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.skipif(torch.__version__ < "2.13", reason="flex attention is not read there")
def test_calls_within_one_compiled_function_are_handed_over_in_order():
    q = torch.randn(1, 2, 5, 4)
    made, calls = noted([FLEX], Chained(), q)
    (first, second), has_unread = calls.take()
    assert not has_unread
    assert torch.equal(first.args[0], q)
    assert torch.equal(second.args[0], q.sin())
    assert torch.equal(second.args[2], first.result)
    assert torch.equal(second.result, made)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.skipif(torch.__version__ < "2.13", reason="flex attention is not read there")
def test_tensors_of_flex_attention_are_handed_over_without_a_copy():
    q = torch.randn(1, 2, 5, 4)
    made, calls = noted([FLEX, F.gelu], Attending(), q)
    (call,), has_unread = calls.take()
    assert call.operator is FLEX
    assert not has_unread
    assert [x.data_ptr() for x in call.args[:3]] == [q.data_ptr()] * 3
    assert call.result.data_ptr() == made.data_ptr()
    assert call.args[5] == 0.5
    assert calls.take() == ([], False)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_calls_of_other_functions_are_told_and_not_handed_over():
    gelu = torch.compile(lambda x: F.gelu(x), backend="eager", fullgraph=True)

    class Gelu(nn.Module):
        def forward(self, x):
            return gelu(x)

    _, calls = noted([FLEX, F.gelu], Gelu(), torch.randn(3))
    assert calls.take() == ([], True)
    _, calls = noted([FLEX], Gelu(), torch.randn(3))
    assert calls.take() == ([], False)


def test_an_operator_in_a_graph_of_the_compilers_has_been_noted():
    calls = CompiledCalls([FLEX], Attending())
    graph = fx.symbolic_trace(nn.ReLU())
    assert calls.has_noted(FLEX, (torch.zeros(1), graph))
    assert not calls.has_noted(FLEX, (torch.zeros(1), torch.relu))
    assert not calls.has_noted(F.gelu, (graph,))
    assert calls.covers(FLEX)
    assert not calls.covers(F.gelu)
