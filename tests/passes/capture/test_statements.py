"""Statements, interpreted as Python runs them."""

from pathlib import Path

import pytest

from tests.passes.capture.given import assert_same, asserts_rightly, asserts_wrongly, reason


def assigns_twice(self, x):
    y = z = self.fc(x)
    y: object = y + 1
    return y * z


def writes_into_a_list_and_a_dictionary(self, x):
    found, by_name = [x, x, x], {}
    found[0] = self.fc(x)
    found[1:] = [x * 2]
    by_name["a"] = found[1]
    by_name["a"] += 1
    return found, by_name


def writes_into_a_tensor(self, x):
    y = self.fc(x)
    y[:, 0] = 7
    y[0] += x[1]
    return y


def goes_one_way_of_two(self, x):
    if self.options["flag"]:
        y = self.fc(x)
        y = y + 1
    else:
        y = x
    return y


def loops(self, x):
    for i, layer in enumerate(self.layers):
        for _ in range(i):
            x = layer(x)
    return x


def returns_nothing(self, x):
    self.fc(x)


def adds_to_a_list_by_two_names(self, x):
    found = same = []
    found += [x]
    same.append(self.fc(x))
    return found


@pytest.mark.parametrize(
    "forward",
    [assigns_twice, writes_into_a_list_and_a_dictionary, writes_into_a_tensor, goes_one_way_of_two,
     loops, asserts_rightly, returns_nothing, adds_to_a_list_by_two_names],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_statements_do_what_they_do_in_python(forward):
    assert_same(forward)


def raises(self, x):
    raise ValueError


def loops_while(self, x):
    while True:
        return x


def loops_with_else(self, x):
    for _ in range(2):
        pass
    else:
        x = x + 1
    return x


def deletes(self, x):
    y = x
    del y
    return x


def writes_into_what_it_found(self, x):
    self.options["flag"] = False
    return x


def writes_beyond_the_end(self, x):
    found = [x]
    found[3] = x
    return found


@pytest.mark.parametrize(
    ("forward", "why"),
    [
        (raises, "uses `raise ValueError`"),
        (loops_while, "uses `while True`"),
        (loops_with_else, "uses `else` after a loop"),
        (deletes, "uses `del y`"),
        (asserts_wrongly, "asserts a condition that is false"),
        (writes_into_what_it_found, "changes `self.options['flag']`"),
        (writes_beyond_the_end, "cannot be followed: IndexError"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_statement_without_a_rule_keeps_the_forward_python(forward, why):
    assert why in reason(forward)
    assert f"({Path(forward.__code__.co_filename).name}:" in reason(forward)
