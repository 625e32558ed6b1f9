"""What became of a model, in words, and the names of sites."""

import operator

import torch
import torch.nn.functional as F
from torch import fx

from taiyi_fx.passes.capture.captured import (
    Capture,
    CapturedGraph,
    TraceLog,
    function_name,
    site_of,
)
from taiyi_fx.passes.capture.guards import Guards


def graph(part, *inlined):
    return CapturedGraph(part, fx.Graph(), Guards(), TraceLog(list(inlined)))


def test_a_model_is_one_graph_where_nothing_stayed_python():
    assert str(Capture({"": [graph("")]})) == "one graph"


def test_what_stayed_python_is_listed_by_its_reason():
    names = ["", "a", "b", "c", "d"]
    capture = Capture({"e": [graph("e", "e", "e.f")]}, dict.fromkeys(names, "uses `with`"))
    assert not capture.is_whole
    assert str(capture) == (
        "1 graph of 2 forwards; Python stays in\n  the model itself, a, b and 2 more: uses `with`"
    )


def test_functions_are_named_as_users_write_them():
    assert function_name(operator.add) == "operator.add"
    assert function_name(F.gelu) == "gelu"
    assert function_name(torch.Tensor.mul) == "Tensor.mul"


def test_of_two_functions_of_one_name_one_has_its_home_in_it():
    def gelu(x):
        return x

    first = site_of("block", F.gelu, {})
    assert first == "block.gelu()"
    assert site_of("block", F.gelu, {first: F.gelu}) == first
    assert site_of("block", gelu, {first: F.gelu}) == f"block.{__name__}.gelu()"
    assert site_of("", F.gelu, {}) == "gelu()"
