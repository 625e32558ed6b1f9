"""Parameters without a gradient, on purpose or not."""

import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings.facts.of_optimizer import GroupSettings
from taiyi_fx.findings.rules.gradients.missing import missing_gradients
from tests.findings.given import evidence, knowing
from tests.findings.rules.optimizer.test_learning import MOVES, NAMES, model

NO_GRADIENT = "no gradient reached weight"
FROZEN = "weight is frozen (requires_grad is False)"


def cut_off(names, why=NO_GRADIENT, called=NAMES):
    """All of `NAMES` in a chain, some of them without a gradient and with the reason for it."""
    numbers = {}
    for name in NAMES:
        numbers[name, "WeightNorm"] = 1.0 if name in names else MOVES
        if name in called:
            numbers[name, "OutputRMS"] = 1.0
        if name not in names:
            numbers[name, "WeightGradNorm"] = 0.5
    return replace(evidence(numbers), reasons={(name, "WeightGradNorm"): why for name in names})


def test_of_a_beginning_that_is_cut_off_the_last_is_named_with_the_others():
    (found,) = missing_gradients(cut_off(["h.0", "h.1", "h.2"]))
    assert (found.kind, found.module, found.severity) == ("detached", "h.2", "warning")
    assert "; nor does one reach 'h.0' and 'h.1' before it" in found.text


def test_a_weight_that_is_computed_of_others_lacks_no_gradient_of_its_own():
    why = "weight is computed of other parameters: ask for theirs"
    assert [*missing_gradients(cut_off(["h.1"], why))] == []


@pytest.mark.parametrize(
    ("cuts", "words"),
    [
        (["argmin"], "; between it and the loss: `argmin`, which passes no gradient back"),
        (["max"], "; between it and the loss: `max`, whose indices have no gradient"),
        (
            ["round", "topk", "detach"],
            "; between it and the loss: `round` and `detach`, which pass no gradient back, and "
            "`topk`, whose indices have no gradient",
        ),
        ([], "; nor does one reach 'h.0' before it"),
    ],
    ids=["one", "indices", "several", "unknown"],
)
def test_what_cuts_a_module_off_is_named_as_the_data_flow_shows_it(cuts, words):
    known = knowing(cut_off(["h.0", "h.1"]), cuts_behind=lambda module, ends: cuts)
    (found,) = missing_gradients(known)
    assert found.text.endswith(words)
    assert found.functions == tuple(cuts)
    assert ("x + (y - x).detach()" in found.advice) == bool(cuts)
    assert ("an index of argmax" in found.advice) != bool(cuts)


def test_what_the_last_block_hands_on_to_none_is_a_note():
    numbers = {}
    for name in (f"blocks.{i}.{part}" for i in range(4) for part in ("back", "fore")):
        numbers |= {(name, "WeightNorm"): MOVES, (name, "OutputRMS"): 1.0}
        if name != "blocks.3.back":
            numbers[name, "WeightGradNorm"] = 0.5
    reasons = {("blocks.3.back", "WeightGradNorm"): NO_GRADIENT}
    group = GroupSettings(("blocks.3.back",), 0.0, False)
    known = knowing(evidence(numbers), reasons=reasons, group_settings=(group,))
    assert [(f.module, f.severity) for f in missing_gradients(known)] == [("blocks.3.back", "note")]


@pytest.mark.parametrize(
    "known",
    [
        cut_off(["h.0", "h.1"], FROZEN),
        cut_off(["h.3", "h.4"]),
        cut_off(["h.4"], called=NAMES[:4]),
        cut_off(["h.0"], called=NAMES[1:]),
    ],
    ids=["frozen", "at the end", "an unused head", "not called"],
)
def test_what_is_frozen_at_the_end_or_not_called_is_not_cut_off(known):
    assert "detached" not in [found.kind for found in missing_gradients(known)]


def test_one_without_a_gradient_among_siblings_is_named():
    (found,) = missing_gradients(model(frozen=["h.3"]))
    assert (found.module, found.severity) == ("h.3", "warning")


def test_a_frozen_beginning_and_frozen_roles_are_deliberate():
    assert [*missing_gradients(model(frozen=["h.0", "h.1"]))] == []
    assert [*missing_gradients(model(frozen=NAMES))] == []
    numbers = {}
    for i in range(4):
        numbers[f"h.{i}.base", "WeightNorm"] = 1.0
        numbers[f"h.{i}.lora", "WeightNorm"] = MOVES
        numbers[f"h.{i}.lora", "WeightGradNorm"] = 0.5
    assert [*missing_gradients(evidence(numbers))] == []


@pytest.mark.parametrize("where", [0, 1])
def test_a_monitor_and_its_run_know_the_reason(where, tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))

        def forward(self, x):
            for i, layer in enumerate(self.layers):
                x = layer(x).tanh()
                x = x.detach() if i == 2 else x
            return x

    cfg = {"Linear": ["WeightNorm", "WeightGradNorm", "OutputRMS"]}
    with warnings.catch_warnings():  # of what no gradient can reach
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        model = taiyi_fx.instrument(Net(), cfg, run=tmp_path / "run")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(9):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            model.monitor.track(step)
            optimizer.step()
    of_monitor = model.monitor.findings
    model.monitor.close()
    with taiyi_fx.open_run(tmp_path / "run") as run:
        found = (of_monitor, run.findings)[where]
    assert [(f.kind, f.module) for f in found] == [("detached", "layers.2")]


def around(frozen, passes):
    numbers = {}
    for name in ("words", "rnn", "head"):
        numbers[name, "WeightNorm"] = 1.0 if name in frozen else MOVES
        if name not in frozen:
            numbers[name, "WeightGradNorm"] = 0.5
        if name in passes:
            numbers[name, "OutputGradRMS"] = 0.1
    reasons = {(name, "WeightGradNorm"): FROZEN for name in frozen}
    return replace(evidence(numbers), reasons=reasons)


@pytest.mark.parametrize("frozen", ["rnn", "head"])
def test_a_single_frozen_module_behind_trained_ones_is_named(frozen):
    (found,) = missing_gradients(around([frozen], ["words", "rnn", "head"]))
    assert (found.kind, found.module) == ("missing_gradient", frozen)


@pytest.mark.parametrize(
    ("frozen", "passes"),
    [
        (["words"], ["rnn", "head"]),
        (["rnn"], ["words", "head"]),
        (["rnn", "head"], ["rnn", "head"]),
    ],
    ids=["the first", "a table that no gradient passes", "several"],
)
def test_other_frozen_modules_are_deliberate(frozen, passes):
    assert [*missing_gradients(around(frozen, passes))] == []


UNCALLED = "the module was not called in a training forward"


def uncalled(names, why=NO_GRADIENT):
    known = cut_off(names, why, called=[name for name in NAMES if name not in names])
    reasons = {**known.reasons, **{(name, "OutputRMS"): UNCALLED for name in names}}
    return replace(known, reasons=reasons)


def test_what_no_forward_calls_is_a_note_of_its_role():
    found = [*missing_gradients(uncalled(["h.0", "h.1", "h.2", "h.3"]))]
    (one,) = [one for one in found if one.kind == "never_called"]
    assert (one.module, one.severity) == ("h.0", "note")
    assert "calls 'h.0', 'h.1', 'h.2' and 1 more" in one.text


def test_what_is_frozen_or_named_already_or_where_nothing_is_called_is_no_note():
    for known in (uncalled(["h.3"]), uncalled(NAMES), uncalled(["h.0", "h.1"], FROZEN)):
        assert "never_called" not in [one.kind for one in missing_gradients(known)]


def test_a_model_tells_what_it_never_calls():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(4, 4), nn.LayerNorm(4)

        def forward(self, x):
            return self.used(x)

    watched = taiyi_fx.instrument(Net())
    for step in range(10):
        watched(torch.randn(3, 4)).square().mean().backward()
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "never_called"]
    assert [(one.module, one.severity) for one in found] == [("unused", "note")]


class Text(nn.Module):
    """A model of words, or of what was embedded before, with places or without."""

    def __init__(self, *, places=6, width=4, is_embedded=False, languages=0):
        super().__init__()
        self.words, self.places = nn.Embedding(20, 4), nn.Embedding(places, width)
        self.head, self.is_embedded = nn.Linear(4, 4), is_embedded
        self.languages = nn.Embedding(languages, 4) if languages else None

    def forward(self, ids):
        if self.is_embedded:
            return self.head(torch.randn(*ids.shape, 4) + self.places(torch.arange(ids.shape[1])))
        x = self.words(ids)
        return self.head(x if self.languages is None else x + self.languages(ids % 3))


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Text(), [("places", "warning")]),
        (Text(places=30), [("places", "note")]),
        (Text(width=3), [("places", "note")]),
        (Text(places=5), [("places", "note")]),
        (Text(is_embedded=True), [("words", "note")]),
        (Text(languages=3), [("places", "note")]),
    ],
    ids=[
        "places",
        "a larger table",
        "another width",
        "types",
        "embedded before",
        "others are added",
    ],
)
def test_places_that_are_not_added_to_words_are_a_warning(model, told):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(10):
        watched(torch.randint(20, (3, 6))).square().mean().backward()
        watched.monitor.track(step)
        optimizer.step()
    found = [one for one in watched.monitor.findings if one.kind == "never_called"]
    assert [(one.module, one.severity) for one in found] == told


def test_those_that_get_no_gradient_any_more_are_named_by_the_last_of_them():
    numbers = {(name, "WeightNorm"): 1.0 for name in "abcd"}
    numbers |= {(name, "WeightGradNorm"): 1.0 for name in "cd"}
    numbers |= {(name, "WeightGradNorm"): [1.0] * 20 for name in "ab"}
    (found,) = missing_gradients(evidence(numbers))
    assert (found.kind, found.module, found.step) == ("detached", "b", 19)
    assert "after step 19; nor does one reach 'a' before it" in found.text
    assert [*missing_gradients(knowing(evidence(numbers), frozen=frozenset("ab")))] == []


def test_experts_and_gradients_that_end_a_little_sooner_are_none():
    numbers = {(name, "WeightNorm"): 1.0 for name in ("a", "experts.3")}
    numbers |= {("a", "WeightGradNorm"): [1.0] * 36, ("experts.3", "WeightGradNorm"): [1.0] * 9}
    numbers |= {("b", "WeightNorm"): 1.0, ("b", "WeightGradNorm"): 1.0}
    assert [*missing_gradients(evidence(numbers))] == []


@pytest.mark.parametrize(
    ("cut", "is_told"),
    [
        (lambda loss: torch.tensor(loss.item(), requires_grad=True), True),
        (lambda loss: loss.detach().requires_grad_(), True),
        (lambda loss: loss, False),
    ],
    ids=["made anew", "detached", "sound"],
)
def test_a_loss_that_reaches_no_module_is_told_once(cut, is_told):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    watched = taiyi_fx.instrument(net)
    for step in range(12):
        loss = cut(watched(torch.randn(8, 4)).square().mean())
        loss.backward()
        watched.monitor.log("loss", loss)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
            watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "detached"]
    assert [(one.severity, one.module) for one in found] == [("alert", "")] * is_told
    assert all("made anew" in one.text for one in found)


def test_where_weights_move_their_gradients_were_cleared_before_they_were_read():
    known = cut_off(NAMES)
    series = [s for s in known.series if s.quantity != "WeightNorm"]
    moving = evidence({(name, "WeightNorm"): MOVES for name in NAMES} | {("", "loss"): 1.0})
    found = missing_gradients(known.with_series([*series, *moving.series]))
    assert "detached" not in [one.kind for one in found]


class TwoHeads(nn.Module):
    """A policy and a value, the last of which is a head of two layers."""

    def __init__(self):
        super().__init__()
        self.body, self.policy = nn.Linear(6, 16), nn.Linear(16, 4)
        self.value = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x):
        h = self.body(x).tanh()
        return self.policy(h), self.value(h).squeeze(-1)


def of_two_heads(loss_of, *, is_given=True, frozen=False):
    torch.manual_seed(0)
    net = TwoHeads()
    net.value.requires_grad_(not frozen)
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-2)
    watched = taiyi_fx.instrument(net, **({"optimizer": optimizer} if is_given else {}))
    for step in range(20):
        x = torch.randn(16, 6)
        policy, value = watched(x)
        loss = policy.square().mean() + loss_of(value, x.sum(1), step)
        optimizer.zero_grad()
        loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
        optimizer.step()
    return [(f.kind, f.module, f.severity) for f in watched.monitor.findings]


def detached_value(value, returns, step):
    return (value.detach() - returns).square().mean()


@pytest.mark.parametrize("loss_of", [detached_value, lambda *_: 0.0], ids=["detached", "unused"])
def test_a_last_head_that_no_gradient_reaches_is_a_note(loss_of):
    found = [one for one in of_two_heads(loss_of) if one[0] == "detached"]
    assert found == [("detached", "value.2", "note")]


@pytest.mark.parametrize(
    ("loss_of", "others"),
    [
        (lambda value, returns, step: (value - returns).square().mean() * (step % 8 == 0), {}),
        (detached_value, {"frozen": True}),
        (detached_value, {"is_given": False}),
    ],
    ids=["now and then", "frozen", "of an optimizer that is not known"],
)
def test_a_last_head_that_is_used_at_times_or_frozen_or_unknown_is_none(loss_of, others):
    assert "detached" not in [one[0] for one in of_two_heads(loss_of, **others)]


class Reader(nn.Module):
    def __init__(self, *, keeps):
        super().__init__()
        self.cell, self.head, self.keeps = nn.GRUCell(4, 6), nn.Linear(6, 2), keeps

    def forward(self, x):
        state = torch.zeros(len(x), 6)
        for step in x.unbind(1):
            state = self.cell(step, state if self.keeps else state.detach())
        return self.head(state)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_state_that_is_detached_at_each_step_is_told(keeps):
    watched = taiyi_fx.instrument(Reader(keeps=keeps))
    for step in range(10):
        watched(torch.randn(8, 5, 4)).square().mean().backward()
        watched.monitor.track(step)
    found = [one for one in watched.monitor.findings if one.kind == "detached"]
    assert [one.module for one in found] == [] if keeps else ["cell"]
    assert all("of 5 calls of 'cell'" in one.text for one in found)


def test_the_line_that_turns_gradients_off_is_told(tmp_path):
    class Skips(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x):
            with torch.no_grad():
                y = self.b(self.a(x)).relu()
            return self.c(y)

    model = Skips()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(nn.Sequential(model, nn.Linear(4, 2)), optimizer=optimizer)
    for step in range(10):
        loss = watched(torch.randn(8, 4)).square().mean()
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    (found,) = (one for one in watched.monitor.findings if one.kind == "detached")
    assert "; the forward of '0' uses `with torch.no_grad()` (test_missing.py:" in found.text
