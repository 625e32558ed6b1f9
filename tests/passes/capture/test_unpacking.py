"""Values given names, as Python does it."""

import pytest
import torch
from torch import fx, nn

from taiyi_fx.passes.capture.unpacking import items_of
from tests.passes.capture.given import assert_same, graph_of, made, reason


class Unpacks(nn.Module):
    """Takes what comes in apart."""

    def forward(self, value):
        """The sum of three, with weights."""
        a, b, c = value
        return a + 2 * b + 3 * c


@pytest.mark.parametrize(
    "value",
    [torch.randn(3, 4), (torch.ones(2), torch.zeros(2), torch.ones(2)), {1.0: 0, 2.0: 0, 3.0: 0},
     torch.return_types.svd((torch.eye(2), torch.ones(2), torch.eye(2)))],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_is_unpacked_as_python_does_it(value):
    graph = graph_of(Unpacks.forward).graph
    values = list(value)
    made = fx.GraphModule(nn.Module(), graph)(value)
    assert torch.equal(torch.as_tensor(made), torch.as_tensor(Unpacks()(values)))


@pytest.mark.parametrize("value", [torch.randn(4, 2), (1.0, 2.0), "ab", [1, 2, 3, 4, 5]])
def test_too_many_or_too_few_to_unpack_say_what_python_says(value):
    graph = graph_of(Unpacks.forward).graph
    with pytest.raises(ValueError, match="values to unpack") as plain:
        Unpacks()(value)
    with pytest.raises(ValueError, match="values to unpack") as traced_too:
        fx.GraphModule(nn.Module(), graph)(value)
    assert str(plain.value).startswith(str(traced_too.value)[:-1])


def unpacks_an_input_with_the_name_of_a_call(self, size):
    a, b = size
    return a + 2 * b


def unpacks_an_attribute(self, x):
    a, b = x.T
    return a + 2 * b


@pytest.mark.parametrize(
    ("forward", "fits", "too_many"),
    [
        (unpacks_an_input_with_the_name_of_a_call, torch.randn(2, 4), torch.randn(3, 4)),
        (unpacks_an_attribute, torch.randn(4, 2), torch.randn(4, 3)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_inputs_and_attributes_are_unpacked_as_python_does_it(forward, fits, too_many):
    model = made(forward)
    in_graph = fx.GraphModule(nn.Module(), graph_of(forward).graph)
    assert torch.equal(in_graph(fits), model(fits))
    with pytest.raises(ValueError, match="too many values to unpack"):
        in_graph(too_many)


def test_a_size_and_what_torch_splits_are_taken_apart_by_their_items():
    class Splits(nn.Module):
        """Splits in several ways."""

        def forward(self, x):
            """Of the same shape as one half."""
            rows, columns = x.shape
            a, b = x.chunk(2, -1)
            c, d = torch.split(x, columns // 2, -1)
            return a + b + c + d + rows

    graph = graph_of(Splits.forward).graph
    assert not [node for node in graph.nodes if node.target is items_of]


def test_parts_of_parts_get_names():
    def forward(self, x):
        (a, [b, c]), d = (x, [x * 2, x * 3]), 4
        return a + b * c + d

    assert_same(forward)


def test_a_starred_name_and_an_attribute_are_no_names():
    def starred(self, x):
        first, *rest = x.shape
        return x + first + rest

    def attribute(self, x):
        self.last, y = x, x
        return y

    assert "unpacks into `(first, *rest)`" in reason(starred)
    assert "changes `self.last`" in reason(attribute)


def test_parts_that_are_known_are_counted_at_once():
    def forward(self, x):
        a, b, c = self.sizes
        return x + a + b + c

    assert "unpacks 2 values into 3" in reason(forward)
