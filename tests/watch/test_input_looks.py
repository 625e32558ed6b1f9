"""The model's inputs are looked at in each mode, and ever more rarely."""

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import taiyi_fx
from taiyi_fx.warning import MonitorWarning
from taiyi_fx.watch.input_looks import InputLooks


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, y=None):
        return self.layer(x) + (0 if y is None else y)


class Any(nn.Module):
    def forward(self, *xs, **named):
        return xs


def looked(*calls, model=None):
    looks = InputLooks(model or Two(), strict=True)
    for args, kwargs in calls:
        looks.look_at(args, kwargs)
    return looks.read()


def test_inputs_have_the_names_of_the_forward_s_arguments():
    x, y = torch.randn(16, 8), torch.randn(16, 8) * 3 + 5
    known = looked(((x,), {"y": y})).trained
    assert [*known] == ["x", "y"]
    for name, value in (("x", x), ("y", y)):
        ((mean, deviation, epsilon),) = known[name]
        assert mean == pytest.approx(float(value.double().mean()), abs=1e-5)
        assert deviation == pytest.approx(float(value.double().std(correction=0)), rel=1e-5)
        assert epsilon == torch.finfo(value.dtype).eps


def test_each_mode_is_looked_at_by_itself_at_powers_of_two():
    model = Two()
    looks = InputLooks(model, strict=True)
    for is_training, count in ((True, 9), (False, 3)):
        model.train(is_training)
        for _ in range(count):
            looks.look_at((torch.randn(16, 8),), {})
    known = looks.read()
    assert (len(known.trained["x"]), len(known.evaluated["x"])) == (4, 2)


@pytest.mark.parametrize(
    "x",
    [
        *(torch.arange(32), torch.ones(4), "text", None, [torch.ones(32)]),
        *(torch.eye(32).to_sparse(), torch.ones(32, device="meta")),
        torch.nested.nested_tensor([torch.ones(32)], layout=torch.jagged),
    ],
)
def test_what_is_no_tensor_of_many_numbers_is_left_out(x):
    assert looked(((x,), {})).trained == {}


def test_arguments_beyond_the_named_ones_have_numbers():
    assert [*looked(((torch.ones(32), torch.ones(32)), {}), model=Any()).trained] == ["0", "1"]


class Broken:
    training = True

    @property
    def forward(self):
        raise RuntimeError("no forward")


def test_a_failure_is_warned_of_once_unless_strict():
    looks = InputLooks(Broken())  # type: ignore[arg-type]
    with pytest.warns(MonitorWarning, match="no forward"):
        looks.look_at((torch.ones(32),), {})
    looks.look_at((torch.ones(32),), {})
    with pytest.raises(RuntimeError, match="no forward"):
        InputLooks(Broken(), strict=True).look_at((torch.ones(32),), {})  # type: ignore[arg-type]


class Counted(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_mode_around_the_model_sees_no_look():
    model, x = Two(), torch.randn(16, 8)
    watched, counts = taiyi_fx.instrument(model), []
    for called in (model, watched):
        with Counted() as seen:
            called(x)
        counts.append(seen.names)
    assert counts[0] == counts[1]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_in_transforms_and_traces_there_is_nothing_to_look_at():
    model = Two()
    watched = taiyi_fx.instrument(model)
    x, weights = torch.randn(5, 16, 8), dict(model.named_parameters())
    torch.func.vmap(watched)(x)
    torch.func.grad(lambda p: torch.func.functional_call(watched, p, (x[0],)).sum())(weights)
    make_fx(watched)(x[0])
    torch.jit.trace(watched, (x[0],), check_trace=False)
    assert watched.monitor._responder.diagnosis.inputs.read().trained == {}


def test_calls_that_nothing_reads_are_not_looked_at():
    watched = taiyi_fx.instrument(Two())
    watched.monitor._session.unread((torch.randn(16, 8),), {})
    assert watched.monitor._responder.diagnosis.inputs.read().trained == {}
    watched(torch.randn(16, 8))
    assert len(watched.monitor._responder.diagnosis.inputs.read().trained["x"]) == 1


def test_an_evaluation_in_inference_mode_is_looked_at():
    watched = taiyi_fx.instrument(Two()).eval()
    with torch.inference_mode():
        watched(torch.randn(16, 8))
    (found,) = watched.monitor._responder.diagnosis.inputs.read().evaluated["x"]
    assert 0.5 < found.deviation < 1.5


@pytest.mark.parametrize("compiled", [False, True])
def test_forwards_of_the_instrumented_model_are_looked_at(compiled):
    watched = taiyi_fx.instrument(Two(), {"layer": ["OutputRMS"]})
    called = torch.compile(watched, backend="eager") if compiled else watched
    called(torch.randn(16, 8)).sum().backward()
    watched.monitor.track(0)
    watched.eval()
    with torch.no_grad():
        called(torch.randn(16, 8))
        called(torch.randn(16, 8))
    known = watched.monitor._responder.diagnosis.inputs.read()
    assert (len(known.trained["x"]), len(known.evaluated["x"])) == (1, 2)


def test_copies_are_those_of_all_inputs_of_training_together():
    x = torch.randn(32, 5)
    twice = torch.cat([x, x])
    (alone,) = looked(((twice,), {}), model=Any()).repeats
    assert (alone.samples, alone.different, alone.is_doubled) == (64, 32, True)
    (beside,) = looked(((twice,), {"t": {"times": torch.arange(64)}}), model=Any()).repeats
    assert (beside.different, beside.is_doubled) == (64, False)
    assert looked(((twice,), {"edges": torch.zeros(2, 64)}), model=Any()).repeats == []
    assert looked(((twice,), {}), model=Any().eval()).repeats == []


def test_only_masks_of_transformers_are_known_to_show_with_1():
    class Own(nn.Module):
        def forward(self, input_ids, attention_mask):
            return input_ids

    Theirs = type("Theirs", (Own,), {"__module__": "transformers.models.own"})
    tokens = torch.tensor([[5, 6, 0]])
    call = ((tokens,), {"attention_mask": tokens == 0})
    assert looked(call, call, model=Own()).shown == []
    assert looked(call, call, model=Theirs()).shown == [(1, 2, 0, True)] * 2
