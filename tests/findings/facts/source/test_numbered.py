"""Numbers of batches that a loader draws anew."""

import pytest

from taiyi_fx.findings.facts.source.numbered import taken_by_number
from tests.findings.facts.source.reading import found_in

CODE = """
loader = DataLoader(data, batch_size=8, shuffle={shuffle})
for epoch in range(3):
    for i, (x, y) in enumerate({over}):
        {body}
        loss.backward()
"""


def found(body="loss = f(model(x), cached[i])", shuffle="True", over="loader"):
    code = CODE.format(body=body, shuffle=shuffle, over=over)
    return [text for _, text in found_in(code, taken_by_number)]


def test_what_is_taken_by_the_number_of_a_batch_is_found_where_a_loader_shuffles():
    assert found() == ["cached[i]"]
    assert found("loss = f(model(x), self.teacher_logits[i])") == ["self.teacher_logits[i]"]


@pytest.mark.parametrize(
    "changed",
    [
        {"shuffle": "False"},
        {"over": "batches"},
        {"body": "loss = f(model(x), cached[y])"},
        {"body": "loss = weights[i] * f(model(x))"},
        {"body": "cached[i] = f(model(x)); loss = cached[i]"},
    ],
    ids=["in order", "another", "by labels", "weights", "kept here"],
)
def test_others_are_none(changed):
    assert found(**changed) == []
