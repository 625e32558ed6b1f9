"""Products of weights with values, in marked graphs."""

import torch.nn.functional as F
from torch import nn

from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.ir import FunctionGroup
from taiyi_fx.passes.rewrite.find_products import find_products

GROUP = FunctionGroup("group", lambda module: (F.softmax,))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout, self.mix = nn.Dropout(0.1), nn.Linear(3, 3)

    def forward(self, a, b, v):
        first = self.dropout(F.softmax(a, dim=-1))
        second = F.softmax(b, dim=-1)
        mixed = self.mix(second)
        third = F.softmax(a + b, dim=-1)
        return first.flatten(0, 1) @ v, mixed @ v, third @ v, third @ a


def graph_of(modules=()):
    model = Model()
    (captured,) = trace(model, TraceTargets(modules, [GROUP])).graphs[""]
    return captured.graph, model


def test_a_product_is_found_but_none_behind_a_mixture_nor_one_of_two():
    graph, model = graph_of()
    ((call, product),) = find_products(graph, model).items()
    assert call == ("group()", 0)
    assert product.heads == -3
    assert str(product.value) == "matmul"
    assert product.value.args[1].name == "v"


def test_marks_of_other_targets_between_are_passed():
    graph, model = graph_of(["", "dropout", "mix"])
    found = find_products(graph, model)
    assert str(found["group()", 0].value) == "matmul"
    assert ("group()", 1) not in found
