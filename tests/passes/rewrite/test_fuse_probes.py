"""One tensor is read once, while nothing can have changed it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.passes.rewrite.given import VALUE, edited, probed, probes, ran


def test_an_output_that_is_the_next_modules_input_is_read_once():
    graph, table = probed(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), ["0", "1"])
    assert list(probes(graph)) == ["0.input", "0.output", "1.output"]
    assert probes(graph)["0.output"] == ["0.output", "0.output_grad", "1.input", "1.input_grad"]
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    ran(graph, model, torch.randn(2, 4)).sum().backward()
    table.board.held.settle()
    first, second = table.at("train", "0", 0), table.at("train", "1", 0)
    assert all(slot.state is not None for slot in {**first, **second}.values())
    outputs = [s.state for r, s in first.items() if r.site.port == "output"]
    inputs = [s.state for r, s in second.items() if r.site.port == "input"]
    assert outputs[0] == inputs[0]


def test_one_input_of_three_modules_is_read_once_and_its_gradients_apart():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x):
            return self.q(x) + self.k(x) * self.v(x)

    graph, _ = probed(Heads(), ["q", "k", "v"], ports=("input", "input_grad"))
    assert probes(graph) == {
        "q.input": ["k.input", "q.input", "q.input_grad", "v.input"],
        "k.input": ["k.input_grad"],
        "v.input": ["v.input_grad"],
    }


class Changed(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.a, self.b, self.change = nn.Linear(4, 4), nn.Linear(4, 4), change

    def forward(self, x):
        y = self.a(x)
        self.change(y)
        return self.b(y)


def add_one_(y):
    y += 1


CHANGES = {
    "method": lambda y: y.add_(1),
    "view": lambda y: y.view(-1).mul_(2),
    "function": lambda y: F.relu_(y),
    "flag": lambda y: F.relu(y, inplace=True),
    "positional flag": lambda y: F.relu(y, True),
    "out": lambda y: torch.add(y, 1, out=y),
    "operator": add_one_,
    "module": nn.ReLU(inplace=True),
    "user's module": type("Mine", (nn.Module,), {"forward": lambda self, y: y.add_(1)})(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_tensor_that_may_have_changed_in_between_is_read_again(change):
    graph, _ = probed(Changed(change), ["a", "b"], ports=VALUE)
    assert list(probes(graph)) == ["a.input", "a.output", "b.input", "b.output"]


def test_a_view_whose_base_changed_in_between_is_read_again():
    class Base(Changed):
        def forward(self, x):
            h = self.a(x)
            v = h.view(-1, 4)
            y = self.b(v)
            h.mul_(2)
            return y + self.c(v)

    model = Base(None)
    model.c = nn.Linear(4, 4)
    graph, _ = probed(model, ["b", "c"], ports=("input",))
    assert list(probes(graph)) == ["b.input", "c.input"]


@pytest.mark.parametrize("same", [lambda y: y.sum(), lambda y: F.relu(y), nn.Linear(4, 4)])
def test_a_tensor_that_cannot_have_changed_is_read_once(same):
    graph, _ = probed(Changed(same), ["a", "b"], ports=VALUE)
    assert list(probes(graph)) == ["a.input", "a.output", "b.output"]


@pytest.mark.parametrize("at", ["input", "input_grad"])
def test_no_reading_is_moved_across_an_edit(at):
    found = probes(edited(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), at)[0])
    assert found["0.output"] == ["0.output", "0.output_grad"]
    assert found["1.input"] == ["1.input", "1.input_grad"]
