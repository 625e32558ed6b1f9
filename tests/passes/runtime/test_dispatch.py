"""Parts that become graphs where the whole cannot: which, when they run, and what they read."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.trace import trace

FACTOR = 2.0
CFG = {"Linear": ["InputSndNorm", "OutputGradSndNorm"]}


class Python(nn.Module):
    """Stays Python whatever it holds."""

    def __init__(self, *parts, times=1):
        super().__init__()
        self.parts, self.times = nn.ModuleList(parts), times

    def forward(self, x):
        for _ in range(self.times):
            for part in self.parts:
                with torch.enable_grad():
                    x = part(x)
        return x


def block():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh())


def stepped(model, x, at=0):
    model(x).square().sum().backward()
    model.monitor.track(at)
    return {m: v["OutputGradSndNorm"][at] for m, v in model.monitor.get_output().items()}


def test_the_largest_parts_become_graphs_and_the_rest_says_why():
    model = Python(block(), nn.Sequential(block(), Python(block())), nn.Linear(4, 4))
    capture = trace(model, TraceTargets(["parts.1.1.parts.0.0"]))
    assert list(capture.graphs) == ["parts.0", "parts.1.0", "parts.1.1.parts.0"]
    assert list(capture.python) == ["", "parts.1", "parts.1.1"]
    assert not capture.is_whole
    assert str(capture) == (
        "3 graphs of 3 forwards; Python stays in\n"
        "  the model itself, parts.1, parts.1.1: uses `with torch.enable_grad()` (test_dispatch.py:26)"
    )


def test_a_part_runs_as_its_graph_only_while_something_in_it_is_due():
    parts, seen = (block(), block()), []
    model = taiyi_fx.instrument(Python(*parts), {"parts.1.0": ["InputSndNorm"]})
    model(torch.ones(1, 4))  # the first forward is followed, through all parts
    parts[1].register_forward_pre_hook(
        lambda module, args: seen.append(["forward" in vars(part) for part in parts])
    )
    model(torch.ones(1, 4))
    model.monitor.pause()
    model(torch.ones(1, 4))
    assert seen == [[False, True], [False, False]]
    assert not any("forward" in vars(part) for part in parts)


def watch(tensor, seen):
    tensor.register_hook(lambda g: seen.append(g))


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
def test_each_call_of_a_shared_part_is_its_own_series(backend):
    torch.manual_seed(0)
    shared = block()
    plain = Python(shared, nn.Sequential(shared, nn.Linear(4, 4)), times=2)
    model = taiyi_fx.instrument(plain, CFG)
    runs = model if backend is None else torch.compile(model, backend=backend, fullgraph=True)
    seen = []
    x = torch.randn(3, 4)
    hook = shared[0].register_forward_hook(lambda m, args, y: watch(y, seen))
    plain(x).square().sum().backward()
    hook.remove()
    runs(x).square().sum().backward()
    model.monitor.track(0)
    found = model.monitor.get_output()
    names = ["parts.0.0" + (f"@{i}" if i else "") for i in range(4)]
    assert [n for n in found if n.startswith("parts.0.0")] == names
    for name, gradient in zip(names, reversed(seen), strict=True):
        assert found[name]["OutputGradSndNorm"][0] == pytest.approx(gradient.norm().item(), 1e-5)


class Kept(Python):
    def forward(self, x, shared=None):
        return super().forward(x)


def test_calls_from_a_graph_and_from_python_beside_it_stay_apart():
    shared = nn.Linear(4, 4)
    first = nn.Sequential(shared, nn.Tanh())
    model = taiyi_fx.instrument(nn.Sequential(first, Kept(shared), nn.Tanh()), CFG)
    assert list(model.capture.graphs) == ["0"]
    assert list(stepped(model, torch.randn(2, 4))) == ["0.0", "0.0@1"]
    assert model.monitor.missing == {}


def test_a_part_that_was_changed_runs_its_python():
    model = taiyi_fx.instrument(Python(block()), CFG)
    before = stepped(model, x := torch.ones(2, 4))
    model.get_submodule("parts.0")[1] = nn.Identity()
    after = stepped(model, x, at=1)
    assert before.keys() == after.keys()
    assert before != after
    expected = 2 * model.get_submodule("parts.0.0")(x)
    assert after["parts.0.0"] == pytest.approx(expected.norm().item(), rel=1e-5)


class Scaled(nn.Module):
    width = 3.0

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x) * FACTOR + Scaled.width


def test_globals_and_class_attributes_are_followed(monkeypatch):
    plain = Scaled()
    model = taiyi_fx.instrument(plain, CFG)
    x = torch.randn(2, 4)
    for name, owner in (("FACTOR", globals()), ("width", Scaled)):
        assert str(model.capture) == "one graph"
        assert torch.equal(model(x), plain(x))
        if owner is Scaled:
            monkeypatch.setattr(Scaled, name, 5.0)
        else:
            monkeypatch.setitem(owner, name, 7.0)
        assert torch.equal(model(x), plain(x))
        assert list(stepped(model, x, at=model.monitor.next_step)) == ["fc"]


def test_a_helper_object_of_the_model_stays_as_it_was():
    class Collects(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.seen = nn.Linear(4, 4), [[]]

        def forward(self, x):
            self.seen[0].append(x)
            return F.relu(self.fc(x))

    plain = Collects()
    model = taiyi_fx.instrument(plain, CFG)
    assert plain.seen == [[]]
    assert "reads `self.seen`, a builtins.list" in str(model.capture)
