"""The functions that a forward's code seems to call."""

import operator
from collections.abc import Mapping

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.passes.capture.captured import Capture
from taiyi_fx.passes.capture.function_sites import OPERATORS, add_sites_in_python, operators_in
from taiyi_fx.passes.capture.operators import BINARY, COMPARISON, IN_PLACE, UNARY
from taiyi_fx.passes.ir import FunctionGroup

CODE = {
    "a + b": operator.add,
    "a @ b": operator.matmul,
    "-a": operator.neg,
    "+a": operator.pos,
    "~a": operator.invert,
    "a < b": operator.lt,
    "a == b": operator.eq,
    "a[b]": operator.getitem,
    "a[b:1]": operator.getitem,
    "1 if a >= b else 0": operator.ge,
    "[x * b for x in [a]][0:1] if a > b else b": operator.gt,
}


@pytest.mark.parametrize("text", CODE)
def test_an_operator_is_found_where_its_instruction_is(text):
    code = compile(f"({text})", "<test>", "eval")
    assert CODE[text] in operators_in(code).values()


@pytest.mark.parametrize(
    ("text", "function"),
    [("a += b", operator.iadd), ("a **= b", operator.ipow), ("a[b] = 1", operator.setitem),
     ("a[b:1] = 1", operator.setitem)],
)  # fmt: skip
def test_a_statement_that_changes_is_an_operator_too(text, function):
    assert list(operators_in(compile(text, "<test>", "exec")).values()) == [function]


def test_what_is_no_operator_is_none():
    code = compile("f(a, b=[1, 2], c=not a, d=a is b, e=a in b)", "<test>", "eval")
    assert operators_in(code) == {}


def test_all_operators_of_syntax_trees_are_known():
    tables = (BINARY, IN_PLACE, COMPARISON, UNARY)
    assert {f for table in tables for f in table.values()} <= OPERATORS


def helper(x):
    return F.gelu(x)


class Python(nn.Module):
    def forward(self, x):
        with torch.enable_grad():
            return self.method(helper(x)) + 1

    def method(self, x):
        return F.relu(x)

    def never(self, x):
        return F.silu(x)


def test_sites_are_those_of_the_forward_and_of_what_it_names():
    capture = Capture(python={"block": "uses `with`"})
    functions = [F.gelu, F.relu, F.silu, operator.add, operator.mul]
    add_sites_in_python(capture, {"block": Python()}, functions)
    assert capture.sites == {"block": ["block.gelu()", "block.relu()", "block.operator.add()"]}
    assert capture.functions["block.gelu()"] is F.gelu


class Registry(Mapping):
    """A registry of functions, none of whose code may run."""

    everywhere = {"relu": lambda x: F.relu(x)}

    def __init__(self):
        self.here = {"silu": lambda x: F.silu(x)}

    def __getitem__(self, key):
        raise AssertionError

    __iter__ = __len__ = __getitem__


REGISTRY, TABLE = Registry(), {"gelu": helper, "number": 3}


class Choosing(nn.Module):
    def forward(self, x):
        return TABLE["gelu"](REGISTRY["relu"](x))


def test_functions_in_a_registry_may_be_called():
    capture = Capture(python={"": "calls `__getitem__`"})
    add_sites_in_python(capture, {"": Choosing()}, [F.gelu, F.relu, F.silu, F.mish])
    assert capture.sites == {"": ["gelu()", "relu()", "silu()"]}


def test_a_group_of_functions_is_one_site():
    group = FunctionGroup("group", lambda module: (F.gelu, F.relu), through=(F.silu,))
    other = FunctionGroup("other", lambda module: (), through=(F.silu,))
    capture = Capture(python={"block": "uses `with`"})
    add_sites_in_python(capture, {"block": Python()}, [group, other])
    assert capture.sites == {"block": ["block.group()"]}
    add_sites_in_python(capture, {"block": Choosing()}, [other])
    assert capture.functions == {"block.group()": group, "block.other()": other}


class _Scores(nn.Module):
    def forward(self, x):
        return F.softmax(x @ x.mT, dim=-1) @ x


class _OneProduct(nn.Module):
    def forward(self, x):
        return F.softmax(x, dim=-1) @ x


class _ByLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weigh = nn.Softmax(-1)

    def forward(self, x):
        return torch.matmul(self.weigh(torch.matmul(x, x.mT)), x)


@pytest.mark.parametrize(
    ("kind", "is_one"), [(_Scores, True), (_OneProduct, False), (_ByLayer, True)]
)
def test_a_function_of_scores_needs_two_products_beside_it(kind, is_one):
    group = FunctionGroup(
        "group", lambda module: (), layers=(nn.Softmax,), of_scores=(F.softmax, torch.softmax)
    )
    capture = Capture(python={"": "stays"})
    add_sites_in_python(capture, {"": kind()}, [group])
    assert list(capture.functions) == ["group()"] * is_one


def test_operators_of_code_without_a_hash():
    code = (lambda x: x @ x).__code__
    code = code.replace(co_consts=(*code.co_consts, {}))
    assert list(operators_in(code).values()) == [operator.matmul]
