"""Calls whose result is thrown away, and dropouts that know nothing of evaluation."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings import LayerSettings
from taiyi_fx.findings.facts.source.of_loop import _READERS
from taiyi_fx.findings.facts.source.slip import Slip
from taiyi_fx.findings.rules.structure.slips import SLIP_KINDS, slips
from tests.findings.given import evidence, knowing


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.pos = nn.Linear(6, 6), nn.Parameter(torch.ones(6))

    def forward(self, x):
        x.add(self.pos)
        x.clamp(-1, 1)
        return F.dropout(self.fc(x), 0.1)


def test_they_are_told_with_their_places_and_the_parameter_that_gets_no_gradient():
    model = nn.Sequential(Block(), nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(10):
        watched(torch.randn(8, 6)).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    found = {one.kind: one for one in watched.monitor.findings}
    thrown, dropping = found["dropped_result"], found["dropout_in_evaluation"]
    line = Block.forward.__code__.co_firstlineno
    assert thrown.text == (
        f"test_slips.py:{line + 1}: `x.add(self.pos)` throws away what it returns; and so does "
        f"test_slips.py:{line + 2}"
    )
    assert (thrown.module, thrown.severity, dropping.severity) == ("0", "warning", "warning")
    assert f"test_slips.py:{line + 3}: `F.dropout(self.fc(x), 0.1)` drops out" in dropping.text
    assert "no gradient reaches the parameter 'pos' of '0'" in found["detached"].text


class Tutorial(nn.Module):
    def __init__(self, *, batch_first):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=batch_first)
        self.register_buffer("pe", torch.rand(50, 1, 8))

    def forward(self, x):
        return self.layer(x + self.pe[: x.size(0)])


@pytest.mark.parametrize("batch_first", [True, False])
def test_places_along_the_batch_are_told_where_it_is_the_first_axis(batch_first):
    watched = taiyi_fx.instrument(Tutorial(batch_first=batch_first))
    for step in range(3):
        watched(torch.randn(4, 6, 8)).square().mean().backward()
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "batch_as_places"]
    assert [one.severity for one in found] == ["warning"] * batch_first
    assert all("`self.pe[:x.size(0)]` takes as many places" in one.text for one in found)


PENALTY = """
def train(critic, watched, optimizer):
    for _ in range(3):
        x = torch.randn(16, 4).requires_grad_()
        slope = torch.autograd.grad(watched(x).sum(), x{keeps})[0]
        loss = watched(x + 1).mean() + 10 * (slope.norm(2, 1) - 1).square().mean()
        loss.backward()
        watched.monitor.track()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(("keeps", "count"), [("", 1), (", create_graph=True", 0)])
def test_a_penalty_of_a_derivative_without_a_graph_is_an_alert(keeps, count, tmp_path):
    code, path, names = PENALTY.format(keeps=keeps), tmp_path / "loop.py", {"torch": torch}
    path.write_text(code)
    exec(compile(code, str(path), "exec"), names)
    critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
    watched = taiyi_fx.instrument(critic, optimizer=optimizer)
    names["train"](critic, watched, optimizer)
    found = [one for one in watched.monitor.findings if one.kind == "constant_penalty"]
    assert [one.severity for one in found] == ["alert"] * count
    assert all("loop.py:5: `torch.autograd.grad(" in one.text for one in found)


class Bends(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.first, self.last, self.function = nn.Linear(1, 8), nn.Linear(8, 1), function

    def forward(self, x):
        return self.last(self.function(self.first(x)))


RESIDUALS = """
def train(model, watched, optimizer):
    for step in range(10):
        x = torch.rand(16, 1).requires_grad_()
        u = watched(x)
        u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
        (u_xx + u).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1)), 1),
        (nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)), 0),
        (nn.Sequential(nn.Linear(1, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1)), 0),
        (Bends(F.relu), 1),
        (Bends(torch.sin), 0),
    ],
    ids=["relu", "tanh", "norm", "function", "curve"],
)
def test_second_derivatives_are_told_of_models_that_have_none(model, count, tmp_path):
    path, names = tmp_path / "loop.py", {"torch": torch}
    path.write_text(RESIDUALS)
    exec(compile(RESIDUALS, str(path), "exec"), names)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    names["train"](model, watched, optimizer)
    found = [one for one in watched.monitor.findings if one.kind == "flat_derivative"]
    assert [one.severity for one in found] == ["alert"] * count


@pytest.mark.parametrize(
    ("kind", "settings", "is_told"),
    [
        ("missing_eval", LayerSettings(drops=0.1), True),
        ("missing_eval", LayerSettings(momentum=0.1), True),
        ("missing_eval", LayerSettings(epsilon=1e-5), False),
        ("averaged_parameters", LayerSettings(momentum=0.1), True),
        ("averaged_parameters", LayerSettings(drops=0.1), False),
    ],
)
def test_what_a_mode_or_buffers_change_is_told_of_models_that_have_such(kind, settings, is_told):
    slip = Slip("net(x_val)", "train.py:8", kind)
    numbers = evidence({("0", "OutputRMS"): 1.0})
    known = knowing(numbers, slips={"": (slip,)}, settings={"0": settings})
    assert [one.kind for one in slips(known)] == [kind] * is_told


def test_each_kind_of_slip_that_is_read_has_words_to_be_told_by_and_none_else():
    of_classes = (
        "dropout_in_evaluation dropped_result batch_as_places adds_nothing torn_view "
        "foreign_lookup left_sorted swapped_inputs"
    )
    assert {kind.name for kind in SLIP_KINDS} == {*_READERS, *of_classes.split()}
