"""Tensors of a batch by name, and batches with others."""

from collections import OrderedDict, UserDict
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch

from taiyi_fx.step_checks.batch import Batch, batch_of, copied


def step(x, y, *rest, scale=1.0):
    pass


def test_tensors_are_named_as_the_function_names_them():
    x = torch.rand(2)
    batch = batch_of(step, ({"a": [x, 3]}, x, x), {"scale": x})
    assert [*batch.tensors()] == ["x['a'][0]", "y", "argument 3", "scale"]


def test_a_builtin_has_numbered_arguments():
    assert [*batch_of(max, (torch.rand(2),), {}).tensors()] == ["argument 1"]


def test_one_tensor_that_is_given_twice_is_replaced_where_it_is_asked_for():
    x = torch.rand(2)
    batch = batch_of(step, (x, x), {"scale": 2.0})
    new = batch.replaced({"y": torch.zeros(2)})
    assert new.args[0] is x
    assert torch.equal(new.args[1], torch.zeros(2))
    assert new.kwargs == {"scale": 2.0}
    assert batch.args[1] is x


def test_real_numbers_alone_are_converted():
    given = (torch.rand(2), torch.arange(2), torch.zeros(2, dtype=torch.complex64))
    made = Batch(given, {}).converted(torch.float64)
    assert [x.dtype for x in made.args] == [torch.float64, torch.int64, torch.complex64]
    assert all(one is not other for one, other in zip(made.args, given, strict=True))


def test_a_copy_has_no_graph_and_asks_for_a_gradient_as_before():
    x = torch.rand(2, requires_grad=True)
    assert copied(x, None).is_leaf
    assert copied(x, None).requires_grad
    assert copied(x, None).dtype == torch.float32
    assert not copied(x.detach(), torch.float64).requires_grad


@dataclass(frozen=True)
class Sample:
    x: torch.Tensor
    name: str = "a"


class Pair(NamedTuple):
    x: torch.Tensor
    y: list


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (Sample(torch.ones(1)), ["x.x"]),
        (Pair(torch.ones(1), [torch.ones(1), 3]), ["x[0]", "x[1][0]"]),
        (UserDict(a=torch.ones(1)), ["x['a']"]),
        (OrderedDict(a=torch.ones(1)), ["x['a']"]),
        (torch.ones(1, 2).max(1), ["x[0]", "x[1]"]),
    ],
)
def test_parts_are_found_and_replaced_in_containers_of_any_class(value, names):
    batch = Batch((value,), {}, ("x",))
    made = batch.mapped(lambda _, x: x * 0)
    assert type(made.args[0]) is type(value)
    assert [*made.tensors()] == names
    assert not any(x.any() for x in made.tensors().values())
    assert all(x.numel() for x in batch.tensors().values())
    assert any(x.any() for x in batch.tensors().values())
