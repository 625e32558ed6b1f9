"""Weights of two optimizers."""

import pytest

from taiyi_fx.findings.facts.source.shared_weights import doubly_trained
from tests.findings.facts.source.reading import found_in

CODE = """
opt_g = torch.optim.Adam({of_g}, lr=1e-3)
opt_d = torch.optim.Adam({of_d})
{third}
for x in batches:
    opt_d.step()
    {step}
"""
BOTH = "itertools.chain(G.parameters(), D.parameters())"


def lines(of_g=BOTH, of_d="D.parameters()", third="pass", step="opt_g.step()"):
    code = CODE.format(of_g=of_g, of_d=of_d, third=third, step=step)
    return [line for line, _ in found_in(code, doubly_trained)]


@pytest.mark.parametrize("both", [BOTH, "[*G.parameters(), *D.parameters()]"])
def test_one_that_has_the_other_ones_model_too_is_found(both):
    assert lines(both) == [2]
    assert lines("G.parameters()", BOTH) == [3]


def test_optimizers_of_a_class_are_read_too():
    code = (
        "class Trainer:\n"
        "    def __init__(self):\n"
        "        self.a = AdamW(list(self.g.parameters()) + list(self.d.parameters()))\n"
        "        self.b = AdamW(self.d.parameters())\n"
        "    def train(self):\n"
        "        for x in self.batches:\n"
        "            self.a.step()\n"
        "            self.b.step()\n"
    )
    assert [line for line, _ in found_in(code, doubly_trained)] == [3]


@pytest.mark.parametrize(
    "changed",
    [
        {"of_g": "G.parameters()"},
        {"of_g": "D.parameters()"},
        {"of_g": "[*E.parameters(), *G.parameters()]", "of_d": "[*E.parameters()]", "step": "pass"},
        {"third": "opt_e = torch.optim.Adam(G.parameters())"},
        {"step": "pass"},
        {"of_g": "[{'params': groups}]"},
    ],
    ids=["apart", "the same", "other loop", "third", "not stepped", "groups"],
)
def test_others_are_none(changed):
    assert lines(**changed) == []
