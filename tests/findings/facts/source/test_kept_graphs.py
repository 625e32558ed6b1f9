"""Sums and lists that keep the graphs of losses."""

import pytest

from taiyi_fx.findings.facts.source.kept_graphs import kept_graphs
from tests.findings.facts.source.reading import found_in

CODE = """
for epoch in range(3):
    {begin}
    for x, y in loader:
        loss = f(model(x), y)
        loss.backward()
        {more}
        {kept}
"""


def lines(kept="total += loss", begin="total, seen = 0, 0", more="pass"):
    code = CODE.format(kept=kept, begin=begin, more=more)
    return [line for line, _ in found_in(code, kept_graphs)]


def test_a_loss_that_is_added_up_with_its_graph_is_found():
    assert lines() == [8]
    assert lines("history.append(loss)", "history = []") == [8]
    assert lines("self.total += loss", "self.total = 0.0") == [8]
    assert lines("total = total + loss") == [8]


@pytest.mark.parametrize(
    "changed",
    [
        {"kept": "total += loss.item()"},
        {"kept": "total += loss.detach()"},
        {"kept": "total += other"},
        {"kept": "total = loss + 1"},
        {"more": "loss = loss.item()"},
        {"begin": "total = torch.zeros(1)"},
        {"more": "total.backward()"},
        {"kept": "queue.append(x)", "begin": "queue = []"},
    ],
    ids=[
        "number",
        "detached",
        "other",
        "no sum",
        "made a number",
        "a tensor",
        "minimized",
        "inputs",
    ],
)
def test_others_are_none(changed):
    assert lines(**changed) == []
