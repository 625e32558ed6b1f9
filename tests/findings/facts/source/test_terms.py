"""Terms of a loss without a gradient, and such that are lost."""

import pytest

from taiyi_fx.findings.facts.source.terms import constant_terms, lost_terms
from tests.findings.facts.source.reading import found_in


@pytest.mark.parametrize(
    ("loss", "is_found"),
    [
        ("f(x) + 0.1 * penalty.item()", True),
        ("f(x) + BETA * penalty.detach()", True),
        ("f(x) + penalty.detach() / 2", True),
        ("f(x) + 0.1 * penalty", False),
        ("f(x) + scale.item() * penalty", False),
        ("f(x) + g(y, z.detach())", False),
        ("f(x) - baseline.detach()", False),
        ("f(x) / f(x).detach()", False),
        ("penalty.detach()", False),
        ("f(x) + weight.detach() * g(x)", False),
    ],
)
def test_a_term_that_is_a_number_to_backward_is_found(loss, is_found):
    assert bool(found_in(f"loss = {loss}\nloss.backward()", constant_terms)) == is_found


SUM = "sum({} for p in self.parameters())"


@pytest.mark.parametrize(
    ("term", "is_found"),
    [
        ("p.data.abs().sum()", True),
        ("(p.data ** 2).sum()", True),
        ("p.abs().sum()", False),
        ("(p * p.data).sum()", False),
    ],
)
@pytest.mark.parametrize(
    "code",
    [
        "loss = f(x) + 0.3 * {}",
        "l1 = {}\nloss = f(x) + 0.3 * l1",
        "def l1(self):\n    return {}\nloss = f(x) + 0.3 * net.l1()",
        "loss = f(x)\nloss += {}",
    ],
)
def test_a_sum_over_data_of_parameters_is_a_number_to_backward(code, term, is_found):
    code = code.format(SUM.format(term)) + "\nloss.backward()"
    assert bool(found_in(code, constant_terms)) == is_found


def test_a_term_that_is_added_later_is_found_and_a_sum_for_the_log_is_none():
    assert found_in("loss = f(x)\nloss += kl.item()\nloss.backward()", constant_terms)
    assert found_in("loss = f(x)\nloss.backward()\ntotal += loss.item()", constant_terms) == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("loss = f(x)\nloss = 0.1 * g(x)", ["f(x)"]),
        ("loss = f(x)\ny = h(x)\nloss = g(y)", ["f(x)"]),
        ("loss = f(x)\nloss = loss + g(x)", []),
        ("loss = f(x)\nlog(loss)\nloss = g(x)", []),
        ("loss = f(x)\nif ready:\n    loss = g(x)", []),
        ("loss = torch.zeros(1)\nloss = g(x)", []),
        ("loss = 0\nloss = g(x)", []),
        ("for head in heads:\n    loss = f(head(x), y)", ["f(head(x), y)"]),
        ("for head in heads:\n    loss += f(head(x), y)", []),
        ("for head in heads:\n    loss = loss + f(head(x), y)", []),
        ("for t in range(9):\n    h = cell(x[t], h)\n    loss = f(h)", []),
        ("for i in range(9):\n    z = g(i)\n    loss = f(z)", ["f(z)"]),
        ("for i in range(9):\n    loss = f(x)\n    if loss < 1:\n        break", []),
        ("for x in batches:\n    loss = f(x)\n    loss.backward()", []),
    ],
)
def test_a_value_that_another_takes_the_place_of_is_found(code, found):
    assert [text for _, text in found_in(f"{code}\nloss.backward()", lost_terms)] == found


def test_what_is_read_before_backward_in_another_way_is_none():
    code = "for x in test:\n    loss = f(x)\nloss = g(y)\nloss.backward()"
    assert found_in(code, lost_terms) == []
