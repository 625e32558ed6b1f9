"""Averages that stay in the model when their evaluation is over."""

import pytest

from taiyi_fx.findings.facts.source.restored import never_restored
from tests.findings.facts.source.reading import found_in

CLASS = """
class EMA:
    def __init__(self, model):
        self.shadow = {k: p.clone() for k, p in model.named_parameters()}
        self.backup = {}

    def update(self, model):
        for k, p in model.named_parameters():
            self.shadow[k].mul_(0.9).add_(p, alpha=0.1)

    def apply(self, model):
        KEEP
        for k, p in model.named_parameters():
            LOAD

    def back(self, model):
        for k, p in model.named_parameters():
            p.data = self.backup[k]
        self.backup = {}

"""
KEEP = "self.backup = {k: p.clone() for k, p in model.named_parameters()}"
LOOP = """
def validate():
    ema.apply(model)
    acc = accuracy(model)
    BACK
    return acc

ema = EMA(model)
for step in range(9):
    loss = f(model(x))
    loss.backward()
    ema.update(model)
    if step % 3 == 0:
        validate()
"""


def lines(code, back="pass", keep=KEEP, load="p.copy_(self.shadow[k])"):
    code = code.replace("BACK", back).replace("KEEP", keep).replace("LOAD", load)
    return [text for _, text in found_in(code, never_restored)]


def test_an_average_that_nothing_takes_out_again_is_found():
    assert lines(CLASS + LOOP) == ["ema.apply(model)"]
    kept = "self.backup = copy.deepcopy(model.state_dict())"
    assert lines(CLASS + LOOP, keep=kept, load="p.data = self.shadow[k]") == ["ema.apply(model)"]
    assert lines(LOOP.replace("apply", "apply_shadow")) == ["ema.apply_shadow(model)"]
    epochs = "for epoch in range(3):\n    train()\n    ema.copy_to(p)\n"
    assert lines(f"def train():\n    f(x).backward()\n\n{epochs}") == ["ema.copy_to(p)"]


OTHERS = {
    "taken out": (CLASS + LOOP, "ema.back(model)"),
    "evaluated at the end": (
        CLASS + LOOP.replace("    if step % 3 == 0:\n        validate", "validate"),
        "pass",
    ),
    "another's": ("for x in y:\n    f(x).backward()\n    net.copy_to(z)\n", "pass"),
    "no way back": (CLASS.partition("    def back")[0] + LOOP, "pass"),
}


@pytest.mark.parametrize(("code", "back"), OTHERS.values(), ids=OTHERS)
def test_others_are_none(code, back):
    assert lines(code, back) == []


def test_a_target_that_is_loaded_is_no_average_that_is_kept():
    code = (
        "class Agent:\n    def sync(self):\n        self.target.load_state_dict(self.net.state_dict())\n"
        "        self.steps = self.steps + 1\n"
        "    def load(self):\n        self.net.load_state_dict(self.saved)\n"
        "for x in y:\n    f(x).backward()\n    agent.sync()\n"
    )
    assert lines(code) == []
