"""Rows that are sorted by their lengths for a recurrent layer, and stay so."""

import ast

import pytest

from taiyi_fx.findings.facts.source.left_sorted import rows_left_sorted

CODE = """
def forward(self, x, lengths, labels=None):
    {sort}
    x = {x}
    packed = pack_padded_sequence(self.emb(x), lengths, batch_first=True)
    _, h = self.gru(packed)
    return {returned}
"""
SORT = "lengths, order = lengths.sort(descending=True)"


def found(sort=SORT, x="x[order]", returned="self.out(h[-1])", more=""):
    tree = ast.parse(CODE.format(sort=sort, x=x, returned=returned) + more)
    return [ast.unparse(one) for one in rows_left_sorted(tree)]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"sort": "lengths, order = torch.sort(lengths, 0, descending=True)"},
        {"sort": "order = lengths.argsort(descending=True)\n    lengths = lengths[order]"},
        {"x": "x.index_select(0, order)"},
        {"x": "x[order, :]"},
    ],
    ids=str,
)
def test_an_order_that_nothing_takes_back_is_found(changed):
    (code,) = found(**changed)
    assert "sort(" in code


@pytest.mark.parametrize(
    "changed",
    [
        {"returned": "self.out(h[-1][order.argsort()])"},
        {"returned": "self.out(h[-1]), order"},
        {"returned": "self.loss(self.out(h[-1]), labels[order])"},
        {"returned": "self.put_back(h[-1], order)"},
        {"returned": "torch.zeros_like(h[-1]).index_copy(0, order, h[-1])"},
        {"returned": "self.out(h[-1])\n    back[order] = h[-1]"},
        {"x": "x"},
        {"sort": "values, order = x.sort()"},
        {"x": "x[order]\n    lengths, order = self.lengths_of(x)"},
    ],
    ids=str,
)
def test_other_orders_are_none(changed):
    assert found(**changed) == []


def test_without_a_recurrent_layer_there_is_none():
    tree = ast.parse(CODE.format(sort=SORT, x="x[order]", returned="h").replace("pack_", "cut_"))
    assert [*rows_left_sorted(tree)] == []
