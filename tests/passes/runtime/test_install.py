"""Which forwards are overridden, and when."""

import torch
from torch import nn

from tests.passes.runtime.given import Python, compiled, due, run


def overridden(model):
    return [name for name, module in model.named_modules() if "forward" in vars(module)]


class Looks(nn.Linear):
    def __init__(self, model):
        super().__init__(4, 4)
        self.seen, vars(self)["model"] = [], model

    def forward(self, x):
        self.seen.append(overridden(vars(self)["model"]))
        return super().forward(x)


def looking():
    model = Python()
    model.head = Looks(model)
    return model, model.head.seen


def test_only_what_is_due_is_overridden_and_only_while_a_forward_runs():
    model, seen = looking()
    made, x = compiled(model, "fc", "head"), torch.randn(2, 4)
    made.session.is_observing = False
    run(made, x)
    made.installation.set_due(due("fc"))
    run(made, x)
    made.installation.set_due(frozenset())
    run(made, x)
    assert [[name for name in names if name] for names in seen] == [[], ["fc"], []]
    assert overridden(model) == []


def test_calls_are_counted_from_the_first_in_each_forward():
    shared = nn.Linear(4, 4)

    class Twice(Python):
        def __init__(self):
            super().__init__()
            self.fc = self.head = shared

    made = compiled(Twice(), "fc")
    made.installation.set_due(due("fc"))
    for _ in range(2):
        run(made, torch.randn(2, 4))
        assert made.table.calls("train", "fc") == 2


def test_the_end_of_a_step_forgets_what_was_read():
    made = compiled(Python(), "fc")
    made.installation.set_due(due("fc"))
    run(made, torch.randn(2, 4)).sum().backward()
    assert made.table.states()
    made.installation.end_step()
    assert not made.table.states()


def test_closing_leaves_the_model_as_it_was():
    model = Python()
    made = compiled(model, "fc")
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    made.installation.set_due(due("fc"))
    made.installation.stand_for_good()
    assert "fc" in overridden(model)
    made.installation.close()
    assert {name: dict(vars(module)) for name, module in model.named_modules()} == before
