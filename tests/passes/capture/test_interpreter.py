"""Calls of functions whose code is known: their arguments, defaults and guards."""

import inspect

import pytest

from taiyi_fx.passes.capture.interpreter import arguments, defaults_of
from taiyi_fx.passes.capture.values import Known, Refused
from tests.passes.capture.given import assert_same, graph_of, reason


def plain(a, b=1):
    return a, b


def of_all_kinds(a, /, b, *rest, c, d=4, **named):
    return a, b, rest, c, d, named


CALLS = [
    (plain, (1,), {}),
    (plain, (1, 2), {}),
    (plain, (), {"b": 3, "a": 2}),
    (of_all_kinds, (1, 2), {"c": 3}),
    (of_all_kinds, (1, 2, 5, 6), {"c": 3, "d": 0, "e": 7, "a": 8}),
    (of_all_kinds, (1,), {"b": 2, "c": 3}),
]


def as_values(found):
    return found.value if isinstance(found, Known) else found


@pytest.mark.parametrize(("function", "args", "kwargs"), CALLS)
def test_variables_are_those_that_python_binds(function, args, kwargs):
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    found = {name: as_values(value) for name, value in arguments(function, args, kwargs).items()}
    assert found == dict(bound.arguments)


WRONG = [
    (plain, (), {}),
    (plain, (1, 2, 3), {}),
    (plain, (1,), {"c": 2}),
    (plain, (1,), {"a": 2}),
    (of_all_kinds, (1, 2), {}),
    (of_all_kinds, (), {"a": 1, "b": 2, "c": 3}),
]


@pytest.mark.parametrize(("function", "args", "kwargs"), WRONG)
def test_arguments_that_python_refuses_are_refused(function, args, kwargs):
    with pytest.raises(TypeError):
        inspect.signature(function).bind(*args, **kwargs)
    with pytest.raises(Refused, match="with other arguments than it takes"):
        arguments(function, args, kwargs)


def test_defaults_are_those_of_the_signature():
    parameters = inspect.signature(of_all_kinds).parameters.values()
    expected = {p.name: p.default for p in parameters if p.default is not p.empty}
    assert defaults_of(of_all_kinds) == expected


def with_a_list(x, found=[]):  # noqa: B006
    return x


def test_a_default_that_may_change_is_refused():
    assert "has a default that it may change, 'found'" in reason(lambda self, x: with_a_list(x))


def test_a_function_is_relied_on_with_its_code_and_defaults():
    guards = graph_of(lambda self, x: plain(x)[0]).guards
    found = {g.name for g in guards if g.owner is plain}
    assert found == {"__code__", "__defaults__", "__kwdefaults__"}


def test_a_function_without_a_return_gives_none():
    def nothing(x):
        x + 1

    assert_same(lambda self, x: (nothing(x), x))


def fails(x):
    return {}["k"]


def test_what_fails_is_refused_with_the_line_where_it_does():
    line = fails.__code__.co_firstlineno + 1
    why = reason(lambda self, x: fails(x))
    assert why == f"cannot be followed: KeyError: 'k' (test_interpreter.py:{line})"
