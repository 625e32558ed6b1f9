"""States that are no copies, and targets that never follow."""

import pytest

from taiyi_fx.findings.facts.source.held_weights import lagging_targets, live_states
from tests.findings.facts.source.reading import found_in

BEST = """
model = Net()
best = None
for epoch in range(9):
    train(model)
    if score(model) > most:
        best = {kept}
{behind}
"""
TARGET = """
q = Net()
target = copy.deepcopy(q)
{before}
for step in range(900):
    with torch.no_grad():
        y = r + gamma * target(new).max(1).values
    loss = f(q(s), y)
    loss.backward()
    {sync}
"""


@pytest.mark.parametrize(
    ("kept", "behind", "is_found"),
    [
        ("model.state_dict()", "model.load_state_dict(best)", True),
        ("copy.deepcopy(model.state_dict())", "model.load_state_dict(best)", False),
        ("model.state_dict()", "model = Net()\nmodel.load_state_dict(best)", False),
        ("model.state_dict()", "other.load_state_dict(best)", False),
        ("model.state_dict()", "best.update(more)\nmodel.load_state_dict(best)", False),
        ("model.state_dict()", "best['a'] = a\nmodel.load_state_dict(best)", False),
        ("model.state_dict()", "torch.save(best, path)", False),
    ],
)
def test_a_state_that_goes_on_changing_is_found(kept, behind, is_found):
    assert bool(found_in(BEST.format(kept=kept, behind=behind), live_states)) == is_found


STOP = """
class EarlyStop:
    def __init__(self):
        self.state = None

    def see(self, model):
        self.state = {kept}
{more}

for epoch in range(9):
    stop.see(net)
net.load_state_dict({loaded})
"""


@pytest.mark.parametrize(
    ("kept", "loaded", "more", "is_found"),
    [
        ("model.state_dict()", "stop.state", "", True),
        ("self.model.state_dict()", "self.state", "", True),
        ("copy.deepcopy(model.state_dict())", "stop.state", "", False),
        ("model.state_dict()", "other.weights", "", False),
        ("model.state_dict()", "stop.state", "        self.state = torch.load(path)", False),
        ("model.state_dict()", "stop.state", "        self.state['a'] = a", False),
        ("model.state_dict()", "stop.state", "        self.state.update(more)", False),
    ],
)
def test_a_state_that_an_attribute_keeps_is_found(kept, loaded, more, is_found):
    code = STOP.format(kept=kept, loaded=loaded, more=more)
    assert bool(found_in(code, live_states)) == is_found


def test_a_state_that_is_loaded_at_once_is_none():
    code = "for x in y:\n    state = q.state_dict()\n    q.load_state_dict(state)\n"
    assert found_in(code, live_states) == []


@pytest.mark.parametrize(
    ("before", "sync", "is_found"),
    [
        ("pass", "pass", True),
        ("target.eval()", "pass", True),
        ("for p in target.parameters():\n    p.requires_grad = False", "pass", True),
        ("target.eval()", "target.load_state_dict(q.state_dict())", False),
        ("pass", "follow(q, target)", False),
        ("pass", "target = copy.deepcopy(q)", False),
        (
            "pass",
            "for a, b in zip(q.parameters(), target.parameters()): b.data.lerp_(a.data, 0.01)",
            False,
        ),
        ("agent = Agent(q, target)", "pass", False),
    ],
)
def test_a_target_that_nothing_brings_up_to_date_is_found(before, sync, is_found):
    assert bool(found_in(TARGET.format(before=before, sync=sync), lagging_targets)) == is_found


def test_a_reference_that_is_to_stay_is_none():
    code = TARGET.format(before="pass", sync="pass").replace("target", "reference")
    assert found_in(code, lagging_targets) == []
