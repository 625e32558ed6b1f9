"""Places of operations."""

import sys

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from taiyi_fx.recorder.replay.places import place_of
from tests.recorder.replay.given import line_of


class Places(TorchDispatchMode):
    """The place of each operation."""

    def __init__(self, model):
        super().__init__()
        self.names = {id(vars(m)): name for name, m in model.named_modules()}
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        self.found.append((name, place_of(sys._getframe(1), self.names)))
        return func(*args, **(kwargs or {}))

    def of(self, name):
        return next(place for found, place in self.found if found == name)


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.GELU())

    def forward(self, x):
        return self.inner(halved(x))


def halved(x):
    return x / 2


def test_a_line_of_a_function_is_the_line_of_its_operation():
    model = Halves()
    with Places(model) as places:
        model(torch.ones(1, 2))
    found = places.of("div")
    assert (found.file, found.line) == (__file__, line_of(halved, "x / 2"))
    assert (found.module, found.function, found.phase) == ("", "halved", "forward")
    line = line_of(Halves, "halved(x))")
    assert found.stack[-2:] == (
        f"{__file__}:{line} in Halves.forward" if sys.version_info >= (3, 11)
        else f"{__file__}:{line} in forward",
        f"{__file__}:{found.line} in halved",
    )  # fmt: skip


def test_in_a_module_of_torch_the_line_is_of_the_nearest_code_of_ones_own():
    model = Halves()
    with Places(model) as places:
        model(torch.ones(1, 2))
    found = places.of("gelu")
    assert (found.file, found.module) == (__file__, "inner.1")
    assert found.line == line_of(Halves, "self.inner(halved")


def run_replayed(body):
    return body()


def test_where_torch_alone_leads_to_it_its_module_has_the_line():
    model = nn.Sequential(nn.GELU())
    with Places(model) as places:
        run_replayed(lambda: model(torch.ones(2)))
    found = places.of("gelu")
    assert found.module == "0"


def test_an_optimizers_step_is_a_phase_of_its_own():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(1, 2)).sum().backward()
    with Places(model) as places:
        optimizer.step()
    assert places.found
    assert {place.phase for _, place in places.found} == {"optimizer"}


def test_in_backward_there_is_no_line_but_of_ones_own_backward():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    model = nn.Linear(2, 2)
    y = Doubled.apply(model(torch.ones(1, 2)).sin()).sum()
    with Places(model) as places:
        y.backward()
    phases = {place.phase for name, place in places.found if name != "ones_like"}
    assert phases == {"backward"}
    assert places.of("cos").file == ""
    own = [p for name, p in places.found if name == "mul" and p.file]
    assert own[0].line == line_of(Doubled.backward, "gradient * 2")
