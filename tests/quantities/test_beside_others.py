"""A quantity's numbers are the same alone and beside any others."""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx import edit
from taiyi_fx.testing import configs
from tests.examples import tried

STEPS = 2

TIMES = ("ForwardTime", "BackwardTime")
"""No call takes the same time twice."""


class Hands(nn.Module):
    """A forward of the user's own that returns its very input."""

    def forward(self, x):
        return x


class Joined(nn.Module):
    """Parts in a chain, with residual additions, and other uses of what parts are given."""

    def __init__(self, parts, ways, *, is_python):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.ways = ways
        self.is_python = is_python

    def forward(self, x):
        if self.is_python:
            x = next(x for _ in range(int(x.sum() != 0)))  # a value decides: no graph
        for part, way in zip(self.parts, self.ways, strict=True):
            h = part(x)
            if way == "residual":
                h = h + x
            elif way == "used elsewhere":
                h = h * 2 + x.sum()
            x = h
        return x


KINDS = {
    "Linear": lambda: nn.Linear(4, 4),
    "Identity": nn.Identity,
    "Dropout": lambda: nn.Dropout(0.0),
    "Hands": Hands,
    "ReLU in place": lambda: nn.ReLU(inplace=True),
    "Tanh": nn.Tanh,
    "LayerNorm": lambda: nn.LayerNorm(4),
    "BatchNorm1d": lambda: nn.BatchNorm1d(4),
    "nested": lambda: nn.Sequential(nn.Identity(), nn.Dropout(0.0)),
    "behind a Linear": lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)),
}
WAYS = ("chain", "residual", "used elsewhere")


def made(kinds, ways, *, is_python=False):
    """A model of these parts; a kind that is said to be shared is the part of it before."""
    torch.manual_seed(0)
    parts = [nn.Linear(4, 4)]
    shared = {}
    for kind in kinds:
        name = kind.removesuffix(", shared")
        part = shared.get(name) if kind != name else None
        parts.append(KINDS[name]() if part is None else part)
        shared[name] = parts[-1]
    return Joined(parts, ("chain", *ways), is_python=is_python)


def recorded(model, cfg):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        model = taiyi_fx.instrument(model, cfg)
        torch.manual_seed(1)
        for step in range(STEPS):
            model.zero_grad()
            (model(torch.randn(3, 4)) ** 2).sum().backward()
            model.monitor.track(step)
        records = model.monitor.get_output()
    return {
        (module, quantity): values
        for module, of in records.items()
        for quantity, values in of.items()
    }


def can_train(model):
    """False where a part changes in place what backward needs."""
    try:
        model(torch.randn(3, 4)).sum().backward()
    except RuntimeError:
        return False
    return True


@st.composite
def cases(draw):
    kind = st.sampled_from([*KINDS, *(f"{name}, shared" for name in KINDS)])
    kinds = draw(st.lists(kind, min_size=1, max_size=3))
    ways = draw(st.lists(st.sampled_from(WAYS), min_size=len(kinds), max_size=len(kinds)))
    is_python = draw(st.booleans())
    assume(can_train(made(kinds, ways)))
    cfg = draw(configs(made(kinds, ways)))
    return kinds, ways, is_python, cfg


@tried(15, of=40)
def test_a_quantity_alone_gives_the_same_as_beside_others(examples):
    settings(max_examples=examples)(given(cases())(gives_the_same))()


def gives_the_same(case):
    kinds, ways, is_python, cfg = case
    together = recorded(made(kinds, ways, is_python=is_python), cfg)
    entries = [(key, entry) for key, of in cfg.items() for entry in of]
    for key, entry in entries if len(entries) > 1 else ():
        alone = recorded(made(kinds, ways, is_python=is_python), {key: [entry]})
        for series, values in alone.items():
            if series[0] == "" and key != "":
                continue  # over all modules that it is asked of, which now is one
            if series[1] in TIMES:
                continue
            for step, value in values.items():
                beside = torch.as_tensor(together[_beside(series, entry, together)][step])
                torch.testing.assert_close(
                    beside,
                    torch.as_tensor(value),
                    rtol=1e-4,
                    atol=1e-6,
                    equal_nan=True,
                    msg=lambda text, at=(key, entry, series, step): f"{at}: {text}",
                )


def _beside(series, entry, together):
    """The same series beside others: with its options, where its quantity is asked for twice."""
    name, options = (entry, {}) if isinstance(entry, str) else (entry[0], entry[-1])
    if not isinstance(options, dict) or not options:
        return series
    text = ", ".join(f"{key}={value}" for key, value in options.items())
    named = series[0], series[1].replace(name, f"{name}({text})", 1)
    return named if named in together else series


def test_a_quantity_that_is_asked_for_twice_has_its_options_beside_others():
    twice = {"Identity": ["OutputRMS", "BackwardInput"]}
    twice["parts.1"] = [["BackwardInput", "linear(0, 0)", {"max_elements": 1}]]
    gives_the_same((["Identity"], ["chain"], False, twice))


@pytest.mark.parametrize("kind", ["Identity", "Dropout", "Hands", "nested"])
@pytest.mark.parametrize("is_python", [False, True])
def test_the_gradient_of_what_hands_on_its_input_is_that_of_all_uses_of_it(kind, is_python):
    cfg = ["OutputGradNorm"], ["OutputGradNorm", "BackwardInput"]
    alone, beside = (
        recorded(made([kind], ["used elsewhere"], is_python=is_python), {"parts.1": entries})
        for entries in cfg
    )
    assert alone["parts.1", "OutputGradNorm"] == beside["parts.1", "OutputGradNorm"]


class BesideIdentity(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.i, self.b = nn.Linear(4, 4), nn.Identity(), nn.Linear(4, 4)

    def forward(self, x):
        h = self.a(x)
        return self.b(self.i(h)) + h.sum()


def test_the_gradient_of_an_input_is_that_of_its_own_use_beside_the_output_that_it_is():
    def of_b(cfg):
        torch.manual_seed(0)
        return recorded(BesideIdentity(), cfg)["b", "BackwardInput"]

    alone = of_b({"b": ["BackwardInput"]})
    beside = of_b({"b": ["BackwardInput"], "i": ["OutputGradNorm"]})
    assert all(torch.equal(alone[step], beside[step]) for step in alone)


@pytest.mark.parametrize("beside", [[], ["BackwardInput"], ["OutputGradNorm"], ["BackwardOutput"]])
def test_an_edit_of_what_is_handed_on_changes_the_gradient_of_the_uses_behind_it(beside):
    torch.manual_seed(0)
    model, x = BesideIdentity(), torch.randn(3, 4)
    h = model.a(x)
    behind = model.b.weight.sum(0).detach().expand_as(h)
    expected = torch.autograd.grad(h, model.a.weight, behind * 2 + h.numel())
    probed = taiyi_fx.instrument(model, {"i": [edit(grad=lambda g: g * 2), *beside]})
    probed(x).sum().backward()
    torch.testing.assert_close(model.a.weight.grad, expected[0])
