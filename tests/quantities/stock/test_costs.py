"""Time and saved memory of calls: in graphs, in Python, in parts, and where neither can be told."""

import time
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx
from taiyi_fx.reductions import device_clock, looks_at_saved_tensors, spans

shows_saved_tensors = pytest.mark.skipif(
    not looks_at_saved_tensors(),
    reason="this torch, such as 2.6, shows no saved tensor unless it is unpacked",
)

COSTS = ["ForwardTime", "BackwardTime", "SavedBytes"]

FLOAT = 4
X = 5 * 3 * FLOAT
"""The bytes of a batch of 5 rows of 3 features."""
H = 5 * 4 * FLOAT
"""The bytes of what Linear(3, 4) makes of it."""


class InPython(nn.Module):
    """A module whose forward stays Python."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        if x.isnan().any():
            raise ValueError
        return self.body(x)


class Checkpointed(InPython):
    def forward(self, x):
        return checkpoint(self.body, x, use_reentrant=False)


class Returns(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, None, x.new_ones(7))
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Works(nn.Module):
    """A module that takes some seconds of a clock."""

    def __init__(self, clock, seconds):
        super().__init__()
        self.clock, self.seconds = clock, seconds

    def forward(self, x):
        self.clock.work(self.seconds)
        return x * 1.0


class Clock:
    """A clock that goes on only while a module works."""

    def __init__(self):
        self.now = 10**18

    def work(self, seconds):
        self.now += round(seconds * 1e9)

    def perf_counter_ns(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(device_clock, "time", made)
    return made


def records(model, *batches, cfg, **options):
    """What is recorded of a step with one forward and backward for each batch."""
    watched = taiyi_fx.instrument(model, cfg, **{"strict": True, **options})
    for x in batches:
        watched(x).sum().backward()
    watched.monitor.track(0)
    output = watched.monitor.get_output()
    return {m: {q: v[0] for q, v in found.items()} for m, found in output.items()}


def saved(model, *batches):
    return records(model, *batches, cfg={"": ["SavedBytes"]})[""]["SavedBytes"]


def mlp(act):
    return nn.Sequential(nn.Linear(3, 4), act, nn.Linear(4, 4))


@shows_saved_tensors
@pytest.mark.parametrize("around", [lambda body: body, InPython])
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: nn.Linear(3, 4), X),
        (lambda: mlp(nn.ReLU()), X + H),  # the second layer saves what the activation saved
        (lambda: mlp(nn.ReLU(inplace=True)), X + H),
        (lambda: mlp(nn.GELU()), X + H + H),
        (lambda: mlp(nn.Identity()), X + H),
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.Flatten(), nn.Tanh()), X + H),
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), X + H + 2 * 5 * FLOAT),
        (lambda: nn.Sequential(nn.Linear(3, 4), Returns(Scaled.apply)), X + H + 7 * FLOAT),
        (lambda: nn.Sequential(nn.Linear(3, 4), Returns(lambda y: y + 1)), X),
        (lambda: nn.Sequential(nn.Linear(3, 4), Returns(lambda y: y[:2].sin())), X + H),
        (lambda: nn.Sequential(nn.Linear(3, 4), Returns(lambda y: [y.sin(), {"a": y.exp()}][0])), X + H),
        (lambda: nn.Linear(3, 4).requires_grad_(False), 0),
    ],
)  # fmt: skip
def test_saved_bytes_are_what_one_counts_by_hand(make, expected, around):
    model = nn.Sequential(around(make()), nn.Linear(4, 1) if expected else nn.Linear(4, 2))
    found = records(model, torch.randn(5, 3), cfg={"0": ["SavedBytes"]})
    assert found["0"]["SavedBytes"] == expected


@shows_saved_tensors
def test_a_call_has_its_own_bytes_and_not_those_before_it():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.ReLU(inplace=True))
    found = records(net, torch.randn(5, 3), cfg={nn.Module: ["SavedBytes"]})
    each = {name: one["SavedBytes"] for name, one in found.items()}
    assert each == {"": X + H + H // 2, "0": X, "1": H, "2": H, "3": H // 2}


@shows_saved_tensors
def test_micro_batches_add_up():
    assert saved(mlp(nn.ReLU()), torch.randn(5, 3), torch.randn(10, 3)) == 3 * (X + H)


@shows_saved_tensors
def test_what_a_checkpoint_will_compute_again_is_not_saved():
    block = mlp(nn.GELU())
    model = nn.Sequential(nn.Linear(3, 3), Checkpointed(block))
    found = records(model, torch.randn(5, 3), cfg={"1": ["SavedBytes"], "0": ["SavedBytes"]})
    assert found["1"]["SavedBytes"] == 0
    assert found["0"]["SavedBytes"] == X


@shows_saved_tensors
def test_hooks_of_the_user_are_not_called_for_it():
    unpacked = []

    def unpack(x):
        unpacked.append(x)
        return x

    watched = taiyi_fx.instrument(mlp(nn.ReLU()), {"": ["SavedBytes"]}, strict=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
        loss = watched(torch.randn(5, 3)).sum()
    assert not unpacked
    loss.backward()
    watched.monitor.track(0)
    assert unpacked
    assert watched.monitor.get_output()[""]["SavedBytes"][0] == 0


@shows_saved_tensors
def test_a_saved_tensor_that_is_changed_in_place_is_still_an_error():
    watched = taiyi_fx.instrument(
        nn.Sequential(nn.Linear(3, 4), nn.Sigmoid()), {"": ["SavedBytes"]}
    )
    y = watched(torch.randn(5, 3))
    y.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_torch_that_shows_no_saved_tensor_says_so(monkeypatch):
    monkeypatch.setattr(spans, "SavedTensor", object)
    with pytest.raises(
        taiyi_fx.ConfigError, match="this torch shows no saved tensor unless unpacked"
    ):
        taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 4)), {"0": ["SavedBytes"]})


@pytest.mark.parametrize("around", [lambda body: body, InPython])
def test_the_time_of_a_call_has_that_of_its_parts(clock, around):
    parts = nn.Sequential(Works(clock, 0.5), Works(clock, 0.25))
    model = nn.Sequential(nn.Linear(3, 3), around(parts), Works(clock, 2.0))
    found = records(
        model,
        torch.randn(5, 3),
        cfg={"": ["ForwardTime"], "1": ["ForwardTime"], Works: ["ForwardTime"]},
    )
    times = [one["ForwardTime"] for one in found.values()]
    assert sorted(times) == pytest.approx([0.25, 0.5, 0.75, 2.0, 2.75])


def test_time_adds_up_over_micro_batches(clock):
    found = records(
        nn.Sequential(nn.Linear(3, 3), Works(clock, 0.5)),
        *torch.randn(3, 5, 3),
        cfg={"1": ["ForwardTime"]},
    )
    assert found["1"]["ForwardTime"] == pytest.approx(1.5)


def test_a_module_that_is_called_twice_has_a_time_for_each_call(clock):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.part = nn.Linear(3, 3), Works(clock, 0.5)

        def forward(self, x):
            y = self.part(self.linear(x))
            self.part.seconds = 4.0
            return self.part(y)

    found = records(InPython(Twice()), torch.randn(5, 3), cfg={"body.part": ["ForwardTime"]})
    assert [v for one in found.values() for v in one.values()] == pytest.approx([0.5, 4.0])


@shows_saved_tensors
def test_the_time_of_other_readings_at_its_own_ends_is_not_in_it(clock, monkeypatch):
    original = spans.SavedBytes.measure_span

    def slow(self, *args):
        clock.work(100.0)
        return original(self, *args)

    monkeypatch.setattr(spans.SavedBytes, "measure_span", slow)
    model = nn.Sequential(nn.Linear(3, 3), Works(clock, 0.5))
    quantities = ["SavedBytes", "ForwardTime", "OutputAbsMax", "InputMean", "OutputGradNorm"]
    found = records(model, torch.randn(5, 3), cfg={"1": quantities})
    assert found["1"]["ForwardTime"] == pytest.approx(0.5)


def test_a_call_that_failed_takes_no_part(clock):
    class Retries(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.part = nn.Linear(3, 3), Fails()

        def forward(self, x):
            try:
                x = self.part(self.linear(x))
            except KeyError:
                x = self.part(self.linear(x))
            return x

    class Fails(Works):
        def __init__(self):
            super().__init__(clock, 0.5)
            self.has_failed = False

        def forward(self, x):
            y = super().forward(x)
            if not self.has_failed:
                self.has_failed = True
                raise KeyError
            return y

    found = records(Retries(), torch.randn(5, 3), cfg={"part": ["ForwardTime"]})
    assert found["part"]["ForwardTime"] == pytest.approx(0.5)


def test_the_real_clock_says_that_one_who_sleeps_takes_longer():
    sleeper = Works(SimpleNamespace(work=time.sleep), 0.05)
    found = records(
        nn.Sequential(nn.Linear(3, 3), sleeper), torch.randn(5, 3), cfg={nn.Module: ["ForwardTime"]}
    )
    assert found["1"]["ForwardTime"] >= 0.05
    assert found[""]["ForwardTime"] >= found["0"]["ForwardTime"] + found["1"]["ForwardTime"]


@pytest.mark.parametrize(
    "name", ["ForwardTime", "BackwardTime", pytest.param("SavedBytes", marks=shows_saved_tensors)]
)
def test_compiled_code_says_why_it_has_neither(name):
    watched = taiyi_fx.instrument(mlp(nn.ReLU()), {"0": [name]})
    run = torch.compile(watched, backend="eager", fullgraph=True)
    run(torch.randn(5, 3)).sum().backward()
    with pytest.warns(UserWarning, match="none has a begin and an end"):
        watched.monitor.track(0)
    torch.compiler.reset()
    assert not watched.monitor.get_output().get("0", {}).get(name)
    assert "none has a begin and an end" in str(watched.monitor.missing)


@shows_saved_tensors
def test_a_module_around_compiled_parts_has_both():
    part = Returns(lambda x: x.sin())
    net = nn.Sequential(InPython(nn.Sequential(part, nn.Linear(3, 4))), nn.Linear(4, 4))
    watched = taiyi_fx.instrument(net, {"0": ["ForwardTime", "SavedBytes"]}, strict=True)
    part.compile(backend="aot_eager", fullgraph=True)
    watched(torch.randn(5, 3)).sum().backward()
    watched.monitor.track(0)
    torch.compiler.reset()
    found = watched.monitor.get_output()["0"]
    assert found["SavedBytes"][0] == X
    assert found["ForwardTime"][0] > 0


@shows_saved_tensors
def test_training_is_bit_for_bit_what_it_is_without():
    def trained(watch):
        torch.manual_seed(0)
        net = nn.Sequential(InPython(mlp(nn.ReLU(inplace=True))), nn.Dropout(0.3), mlp2())
        cfg = {nn.Module: [*COSTS, "OutputGradNorm", "PerSampleGradNorm"]}
        run = taiyi_fx.instrument(net, cfg) if watch else net
        step = torch.optim.SGD(net.parameters(), 0.1)
        for i in range(3):
            step.zero_grad()
            run(torch.randn(5, 3)).square().sum().backward()
            step.step()
            if watch:
                run.monitor.track(i)
        return [*net.state_dict().values()]

    def mlp2():
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))

    assert all(map(torch.equal, trained(watch=False), trained(watch=True)))


class Backward(torch.autograd.Function):
    """The identity, whose backward takes some seconds of a clock."""

    @staticmethod
    def forward(ctx, x, clock, seconds):
        ctx.clock, ctx.seconds = clock, seconds
        return x * 1

    @staticmethod
    def backward(ctx, g):
        ctx.clock.work(ctx.seconds)
        return g, None, None


class WorksBack(Works):
    """A module whose backward takes some seconds, and whose forward takes none."""

    def forward(self, x):
        return Backward.apply(x, self.clock, self.seconds)


@pytest.mark.parametrize("around", [lambda body: body, InPython])
def test_the_time_of_a_backward_has_that_of_its_parts(clock, around):
    parts = nn.Sequential(WorksBack(clock, 0.5), WorksBack(clock, 0.25))
    model = nn.Sequential(nn.Linear(3, 3), around(parts), WorksBack(clock, 2.0), Works(clock, 9.0))
    cfg = {name: ["BackwardTime"] for name in ("", "1", "2", "3")} | {WorksBack: ["BackwardTime"]}
    found = records(model, *torch.randn(2, 5, 3), cfg=cfg)
    times = {name: one["BackwardTime"] for name, one in found.items()}
    inner = "1.body." if around is InPython else "1."
    assert times == pytest.approx(
        {"": 5.5, "1": 1.5, f"{inner}0": 1.0, f"{inner}1": 0.5, "2": 4.0, "3": 0.0}
    )


def test_a_checkpoint_computes_again_in_backward(clock):
    class Block(Checkpointed):
        pass

    body = nn.Sequential(nn.Linear(3, 3), Works(clock, 0.5), WorksBack(clock, 1.0), nn.Tanh())
    model = nn.Sequential(nn.Linear(3, 3), Block(body))
    found = records(model, torch.randn(5, 3), cfg={"1": ["ForwardTime", "BackwardTime"]})
    assert found["1"] == pytest.approx({"ForwardTime": 0.5, "BackwardTime": 1.5})


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (nn.Sequential(nn.Identity(), nn.Linear(3, 3)), "makes nothing that has a backward"),
        (nn.Sequential(nn.Linear(3, 3)), "no backward ran through its call"),
    ],
)
def test_a_call_without_backward_says_why(model, why):
    watched = taiyi_fx.instrument(model, {"0": ["BackwardTime"]})
    watched(torch.randn(5, 3))
    with pytest.warns(taiyi_fx.MonitorWarning, match=why):
        watched.monitor.track(0)


def test_a_backward_under_compiled_autograd_is_left_alone():
    watched = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 3)), {"0": ["BackwardTime"]})
    y = watched(torch.randn(5, 3)).sum()
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        y.backward()
    torch.compiler.reset()
    assert watched[0].weight.grad is not None
    with pytest.warns(taiyi_fx.MonitorWarning, match="or one that was compiled"):
        watched.monitor.track(0)
