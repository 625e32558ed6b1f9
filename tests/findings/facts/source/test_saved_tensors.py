"""What a function of autograd saves, and by which names its backward takes it."""

import pytest

from taiyi_fx.findings.facts.source.saved_tensors import mistaken_tensors
from tests.findings.facts.source.reading import found_in

CODE = """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        t = torch.tanh(x)
        t_flat = t.flatten()
        ctx.save_for_backward({saved})
        {more}
        return weight * t

    @staticmethod
    def backward(ctx, grad):
        {taken} = ctx.saved_tensors
        return grad * (1 - t * t), None
"""


def found(saved="x", taken="(t,)", more="pass"):
    code = CODE.format(saved=saved, taken=taken, more=more)
    return [text for _, text in found_in(code, mistaken_tensors)]


def test_what_is_saved_as_one_tensor_and_taken_for_another_is_found():
    assert found() == ["x"]
    assert found("x, weight", "weight, x") == ["x", "weight"]
    assert found("weight, x", "weight, t") == ["x"]


@pytest.mark.parametrize(
    "changed",
    [
        {"saved": "t"},
        {"saved": "x", "taken": "(saved,)"},
        {"saved": "t_flat", "taken": "(t,)"},
        {"saved": "torch.tanh(x)", "taken": "(t,)"},
        {"taken": "saved"},
        {"more": "ctx.save_for_backward(t)"},
    ],
    ids=str,
)
def test_other_names_are_none(changed):
    assert found(**changed) == []


def test_a_class_without_both_is_none():
    assert found_in("class A:\n    def forward(ctx, x):\n        pass", mistaken_tensors) == []
