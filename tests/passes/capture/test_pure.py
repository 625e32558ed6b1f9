"""Python's own functions, of what is known and of what a forward made."""

import numbers

import pytest
import torch
from torch import nn

from tests.passes.capture.given import assert_same, graph_of, reason

FORWARDS = {
    "len": lambda self, x: x * len([x, x]),
    "list and tuple": lambda self, x: (list((x, 1)), tuple([x]), list()),  # noqa: C408, C409, C410
    "zip": lambda self, x: [a * b for a, b in zip([x, x * 2], (1, 2), strict=True)],
    "enumerate": lambda self, x: [(i, y * i) for i, y in enumerate([x, x * 2], 5)],
    "reversed": lambda self, x: list(reversed([x, x * 2])),
    "sum": lambda self, x: sum([x, x * 2], 3),
    "any": lambda self, x: x if any([0, self.scale]) else -x,
    "bool": lambda self, x: x if bool(self.seen) else -x,
    "isinstance": lambda self, x: x if isinstance(self.fc, (nn.Linear, nn.Conv2d)) else -x,
    "isinstance of numbers": lambda self, x: x if isinstance(self.scale, numbers.Number) else -x,
    "hasattr": lambda self, x: x if hasattr(self, "scale") and hasattr(self, "helper") else -x,
    "getattr": lambda self, x: getattr(self, "f" + "c")(x) * getattr(self, "scale", 9),
    "numbers": lambda self, x: x * max(1, abs(-3)) + int("4") + round(2.6) + pow(2, 3),
    "sorted": lambda self, x: x * sorted([3, 1, 2])[0],
    "lists added": lambda self, x: [x] + [1] + [x * 2],  # noqa: RUF005
    "numbers of shapes": lambda self, x: x * int(x.shape[-1]),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_a_function_gives_what_it_gives_in_python(name):
    assert_same(FORWARDS[name])


def test_an_enumeration_goes_on_as_what_it_goes_through_grows():
    def forward(self, x):
        found = [x]
        for i, y in enumerate(found):
            if i < 2:
                found.append(y * 2)
        return found

    assert_same(forward)


class Odd(type):
    def __instancecheck__(cls, value):
        raise AssertionError("code of the model was run")


class Kind(metaclass=Odd):
    pass


@pytest.mark.parametrize(
    ("why", "forward"),
    [
        ("branches on a tensor's data or shape", lambda self, x: bool(x)),
        ("takes the truth value of a Linear", lambda self, x: x if self.fc else -x),
        ("tests the type of a value", lambda self, x: isinstance(x, torch.Tensor)),
        (
            "tests a type that has its own `__instancecheck__`",
            lambda self, x: isinstance(self.scale, Kind),
        ),
        ("uses `hasattr` on what is not a module", lambda self, x: hasattr(x, "grad")),
        ("tests for an attribute that does not exist, 'no'", lambda self, x: hasattr(self, "no")),
        ("reads an attribute by a name that is not a string", lambda self, x: getattr(self, 3)),
        ("computes with a list", lambda self, x: [x] * 2),
        ("changes in place a list or dictionary that it did not make", None),
        ("cannot be followed: TypeError", lambda self, x: len(1, 2)),
    ],
)
def test_what_is_not_known_keeps_the_forward_python(why, forward):
    def extends_what_it_found(self, x):
        found = self.seen
        found += [x]
        return x

    assert why in reason(forward or extends_what_it_found)


def test_an_attribute_that_is_asked_for_is_a_guard():
    guards = graph_of(FORWARDS["hasattr"]).guards
    assert {"scale", "helper"} <= {guard.name for guard in guards}
