"""Fields with the functions that find them."""

from dataclasses import dataclass, fields

from taiyi_fx.findings import owners_of
from taiyi_fx.findings.facts import detected
from taiyi_fx.findings.facts.autograd import Uses, name_of
from taiyi_fx.findings.facts.mistaken_axes import MistakenAxes
from tests.findings.facts.losses import LINEAR, K, N, X, many


@dataclass(frozen=True)
class Known:
    count: int = detected.found_by(lambda uses: len(uses.nodes), -1)


def uses():
    loss = many(X).softmax(0).square().mean()
    return Uses.of(loss, owners_of(dict(LINEAR.named_modules())))


def softmaxes(uses):
    return (node for node in uses.nodes if name_of(node) == "Softmax")


def test_a_field_has_its_function_and_its_value_without_it():
    (count,) = fields(Known)
    assert Known().count == -1
    assert count.metadata["detect"](uses()) == len(uses().nodes)


def test_what_is_found_is_described():
    of = uses()
    assert [*detected.owners_of(softmaxes)(of)] == ["many"]
    (odd,) = detected.softmaxes_of(softmaxes)(of)
    assert (odd.module, odd.axis, odd.shape) == ("many", 0, (N, K))
    pairs = detected.axes_of(lambda of: ((node, (1,), (2,)) for node in softmaxes(of)))
    assert [*pairs(of)] == [MistakenAxes("many", (1,), (2,))]
    assert name_of(detected.first_of(softmaxes)(of)) == "Softmax"
    assert detected.first_of(lambda of: iter(()))(of) is None
    assert detected.of_number(lambda number: number.ndim)(of) == 0
