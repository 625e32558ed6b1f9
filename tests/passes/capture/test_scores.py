"""Scores in a graph that is being written."""

import operator

import pytest
import torch
from torch import fx

from taiyi_fx.passes.capture.scores import is_of_scores


@pytest.fixture
def graph():
    return fx.Graph()


def product(graph):
    q = graph.placeholder("q")
    k = graph.placeholder("k")
    return graph.call_function(operator.matmul, (q, graph.call_method("transpose", (k, -2, -1))))


def test_a_product_may_be_scaled_masked_and_converted(graph):
    scaled = graph.call_function(operator.truediv, (product(graph), 8.0))
    biased = graph.call_function(operator.add, (graph.placeholder("bias"), scaled))
    masked = graph.call_method("masked_fill", (biased, graph.placeholder("mask"), -1e9))
    assert is_of_scores((graph.call_method("float", (masked,)), -1), {})
    assert is_of_scores((), {"input": masked, "dim": -1})


def test_a_linear_layer_is_no_product_of_two_computed_tensors(graph):
    weight, x = graph.get_attr("weight"), graph.placeholder("x")
    assert not is_of_scores((graph.call_function(operator.matmul, (x, weight)), -1), {})
    linear = graph.call_function(torch.nn.functional.linear, (x, weight))
    assert not is_of_scores((linear, -1), {})
    assert not is_of_scores((graph.call_module("layer", (x,)), -1), {})


def test_what_is_neither_scaled_nor_masked_is_none(graph):
    assert not is_of_scores((graph.call_method("cumsum", (product(graph), -1)), -1), {})
    assert not is_of_scores((), {})
    assert not is_of_scores((1.0, -1), {})
