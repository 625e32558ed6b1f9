"""An instrumented object is a second face of the model: the same parts, read when it is called."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import io
import pickle
import threading
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

import taiyi_fx
from taiyi_fx.passes.override import ForwardOverride

CFG = {nn.Linear: ["InputSndNorm", "OutputGradSndNorm"]}


class Part(nn.Module):
    def __init__(self, width: int = 4):
        super().__init__()
        self.fc, self.drop = nn.Linear(width, width), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(F.relu(self.fc(x)))


class Net(nn.Module):
    """One graph."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = Part(), Part(), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.b(self.a(x)))


class Branching(Net):
    """Stays Python."""

    def forward(self, x):
        x = x if x.sum() < 1e9 else -x  # within the call, torch 2.6 on Python 3.13 breaks down
        return super().forward(x)


BOTH = pytest.mark.parametrize("kind", [Net, Branching])


def built(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make()


def pair(make: Callable[[], nn.Module] = Net, cfg: Any = CFG) -> tuple[nn.Module, Any]:
    """The same model twice, the second instrumented."""
    return built(make), taiyi_fx.instrument(built(make), cfg)


def step(model: nn.Module, number: int = 0) -> list[Any]:
    """All that a training step shows; a step of an instrumented model is tracked."""
    torch.manual_seed(number)
    y = model(torch.randn(3, 4))
    (y if isinstance(y, Tensor) else y[0]).square().sum().backward()
    if isinstance(model, taiyi_fx.InstrumentedModule):
        with warnings.catch_warnings():  # of what a change has taken away from a reading
            warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
            taiyi_fx.monitor_of(model).track(number)
    found = [y.detach(), *(p.grad for p in model.parameters()), *model.buffers()]
    return [*found, torch.get_rng_state()]


def assert_alike(
    plain: nn.Module, probed: Any, change: Callable[[Any], Any], *, is_read: bool = True
) -> None:
    """Steps before and after a change, made through the one and through the other, are equal."""
    for number in range(4):
        if number == 2:
            change(plain)
            change(probed)
        for a, b in zip(step(plain, number), step(probed, number), strict=True):
            assert (a is None) == (b is None)
            assert a is None or (torch.equal(a, b) and a.stride() == b.stride())
    if is_read:
        assert read(probed, 3)


def read(model: Any, number: int = 0) -> set[str]:
    return {r.module for r in taiyi_fx.monitor_of(model).records if r.step == number}


def entries(model: nn.Module) -> dict[str, dict[str, Any]]:
    return {name: dict(vars(module)) for name, module in model.named_modules()}


@BOTH
def test_a_call_of_the_model_is_plain_and_unread(kind):
    plain, probed = pair(kind)
    model = probed._instrumentation.model
    for number in range(2):
        for a, b in zip(step(plain, number), step(model, number), strict=True):
            assert a is None or torch.equal(a, b)
    with pytest.warns(taiyi_fx.MonitorWarning, match="was not called"):
        probed.monitor.track(0)
    assert not read(probed)
    step(probed, 1)
    assert read(probed, 1) == {"a.fc", "b.fc", "head"}


def test_another_thread_that_calls_the_model_meanwhile_is_not_read():
    class Meets(Net):
        def forward(self, x):
            x = self.a(x)
            if threading.current_thread() is threading.main_thread():
                other = threading.Thread(target=model, args=(100 * torch.ones(3, 4),))
                other.start()
                other.join()
            return self.head(self.b(x))

    model = built(Meets)
    probed = taiyi_fx.instrument(model, {nn.Linear: ["InputAbsMax"]})
    torch.manual_seed(0)
    x = torch.randn(3, 4)
    probed(x).sum().backward()
    probed.monitor.track(0)
    assert {r.module for r in probed.monitor.records} == {"a.fc", "b.fc", "head"}
    assert probed.monitor.get_output()["a.fc"]["InputAbsMax"][0] == x.abs().max()


class Starts(Net):
    """Starts a thread in its first forward."""

    started: Callable[[], None] | None = None

    def forward(self, x):
        x = self.a(x)
        if threading.current_thread() is threading.main_thread() and self.started:
            self.started()
        return self.head(self.b(x))


@pytest.mark.parametrize("is_body", [False, True])
def test_a_call_that_another_thread_makes_meanwhile_is_said_once_to_be_unread(is_body):
    model = built(Starts)
    probed = taiyi_fx.instrument(model, {nn.Linear: ["InputAbsMax"]})

    def call():
        with probed.monitor.reading() if is_body else contextlib.nullcontext():
            (model if is_body else probed)(100 * torch.ones(3, 4))

    def started():
        other = threading.Thread(target=call)
        other.start()
        other.join()

    model.started = started
    x = torch.randn(3, 4)
    for number in range(2):
        probed(x).sum().backward()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            probed.monitor.track(number)
        assert ["in another thread" in str(w.message) for w in told] == [True] * (not number)
        assert probed.monitor.get_output()["a.fc"]["InputAbsMax"][number] == x.abs().max()
        assert read(probed, number) == {"a.fc", "b.fc", "head"}


def test_threads_wait_for_each_other_where_values_are_changed_and_that_of_track_is_read():
    model = built(Starts)
    model.a.drop.p = model.b.drop.p = 0.0
    edit = taiyi_fx.edit(value=lambda y: 2 * y)
    probed = taiyi_fx.instrument(model, {"head": ["InputAbsMax", edit]})
    x, found, others = torch.randn(3, 4), {}, []

    def started():
        others.append(threading.Thread(target=lambda: found.update(other=probed(10 * x))))
        others[-1].start()
        time.sleep(0.05)

    model.started = started
    found.update(own=probed(x))
    others[0].join()
    model.started = None
    assert torch.equal(found["own"], 2 * model(x))
    assert torch.equal(found["other"], 2 * model(10 * x))
    with pytest.warns(taiyi_fx.MonitorWarning, match="another thread than the one that calls"):
        probed.monitor.track(0)
    largest = model.b(model.a(x)).abs().max()
    assert probed.monitor.get_output()["head"]["InputAbsMax"][0] == largest


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_each_of_several_over_shared_parts_reads_its_own_forwards(order):
    generator, critic = built(Part), built(Net)
    alone = taiyi_fx.instrument(critic, {nn.Linear: ["InputAbsMax"]})
    both = taiyi_fx.instrument(nn.Sequential(generator, critic), {nn.Linear: ["InputAbsMax"]})
    again = taiyi_fx.instrument(critic, {"head": ["OutputGradSndNorm"]})
    before = entries(critic)
    x = torch.randn(3, 4)
    for number, model in enumerate((alone, both, again)):
        model(x).sum().backward()
        model.monitor.track(number)
    assert read(alone, 0) == {"a.fc", "b.fc", "head"}
    assert read(both, 1) == {"0.fc", "1.a.fc", "1.b.fc", "1.head"}
    assert read(again, 2) == {"head"}
    for at in order:
        (alone, both, again)[at].monitor.close()
    assert entries(critic) == before


def test_one_that_runs_within_anothers_forward_is_read_by_both():
    critic, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(3, 4)

    class Holds(nn.Module):
        def __init__(self, instrumented):
            super().__init__()
            self.critic, self.instrumented = critic, [instrumented]

        def forward(self, x):
            return self.critic(x) + self.instrumented[0](x)

    inner = taiyi_fx.instrument(critic, {"0": ["OutputRMS"]})
    outer = taiyi_fx.instrument(Holds(inner), {"critic.0": ["OutputRMS"]})
    for number in range(2):
        outer(x).sum().backward()
        outer.monitor.track(number)
        inner.monitor.track(number)
        assert read(outer, number) == {"critic.0", "critic.0@1"}
        assert read(inner, number) == {"0"}


@BOTH
@pytest.mark.parametrize("ends", ["closed", "gone"])
def test_all_is_as_before_when_it_ends(kind, ends):
    model = built(kind)
    before = entries(model)
    probed = taiyi_fx.instrument(model, CFG)
    step(probed)
    torch.compile(lambda x: probed(x), backend="eager")(torch.randn(3, 4))
    assert isinstance(vars(model.head).get("forward"), ForwardOverride)
    gone = weakref.ref(probed)
    if ends == "closed":
        probed.monitor.close()
    else:
        torch._dynamo.reset()
        del probed
        gc.collect()
        assert gone() is None
    assert entries(model) == before


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def pickled(model):
    return pickle.loads(pickle.dumps(model))


def replica(model):
    return model._replicate_for_data_parallel()


COPIES = pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, pickled, saved, replica])


@BOTH
@COPIES
@pytest.mark.parametrize("what", ["model", "part"])
def test_a_copy_of_the_model_or_a_part_carries_no_probes(kind, copied, what):
    model = built(kind)
    probed = taiyi_fx.instrument(model, CFG)
    step(probed)
    original = model if what == "model" else model.head
    made = copied(original)
    assert "forward" not in vars(made)
    if copied is not replica:  # whose parameters come later
        made(torch.randn(3, 4))
    with pytest.warns(taiyi_fx.MonitorWarning, match="was not called"):
        probed.monitor.track(1)


def test_a_forward_may_close_the_monitor():
    class Closes(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.then = nn.Linear(4, 4), [None]

        def forward(self, x):
            y = self.head(x)
            self.then[0]()
            return self.head(y)

    model, x = Closes(), torch.randn(3, 4)
    probed = taiyi_fx.instrument(model, CFG)
    model.then[0] = probed.monitor.close
    with pytest.warns(taiyi_fx.MonitorWarning, match="track was never called"):
        y = probed(x)
    assert torch.equal(y, model.head(model.head(x)))
    assert not any("forward" in vars(part) for part in model.modules())


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled, saved])
def test_copies_carry_none_where_compiled_code_keeps_them_in_place(copied):
    model = built(Branching)
    probed = taiyi_fx.instrument(model, CFG)
    torch.compile(lambda x: probed(x), backend="eager")(torch.randn(3, 4))
    assert isinstance(vars(model.head)["forward"], ForwardOverride)
    made = copied(model)
    assert not isinstance(vars(made.head).get("forward"), ForwardOverride)
    assert made.head.forward.__self__ is made.head
    assert step(made)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled, saved])
def test_a_copy_of_one_that_keeps_its_edits_in_place_is_a_graph_again(copied):
    probed = taiyi_fx.instrument(built(Net), {"head": [taiyi_fx.edit(value=torch.neg)]})
    probed(torch.randn(3, 4))
    made = copied(probed)
    assert made.capture.is_whole
    assert "forward" not in vars(made.head)
    assert torch.equal(made.eval()(torch.ones(3, 4)), probed.eval()(torch.ones(3, 4)))


class Copies(nn.Module):
    """Copies a part when it is first called, as momentum encoders do, or in threads for devices."""

    def __init__(self, copied, in_thread):
        super().__init__()
        torch.manual_seed(0)
        self.part, self.copied, self.made = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), copied, []
        self.in_thread = in_thread

    def forward(self, x):
        self.made = self.made or [self.copied(self.part)]
        self.made[0].shift = 3.0
        results = []
        call = lambda: results.append(self.made[0](x))  # noqa: E731
        if self.in_thread:
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
        else:
            call()
        return self.part(x) + results[0]


class Shifted(nn.Sequential):
    def forward(self, x):
        return super().forward(x) + self.shift


def shallow(part):
    made = copy.copy(part)
    made.__class__ = Shifted
    return made


@pytest.mark.parametrize(
    ("copied", "in_thread"), [(copy.deepcopy, False), (copy.deepcopy, True), (shallow, True)]
)
@pytest.mark.parametrize("steps", [1, 2])
def test_a_copy_that_a_forward_makes_is_a_copy_of_the_models(copied, in_thread, steps):
    plain, model = (Copies(copied, in_thread) for _ in range(2))
    probed, x = (
        taiyi_fx.instrument(model, {"": ["OutputRMS"], "part": ["OutputRMS"]}),
        torch.randn(3, 4),
    )
    for _ in range(steps):
        assert torch.equal(probed(x), plain(x))
    if copied is copy.deepcopy:
        assert "forward" not in vars(model.made[0])
    for each in (plain, model):
        each.made[0].__class__ = Shifted
    assert torch.equal(model.made[0](x), plain.made[0](x))


class Unread(nn.Module):
    """Calls a shallow copy of a part with another weight, and without the part's hooks."""

    has_hooks = True

    def __init__(self):
        super().__init__()
        self.read, self.part = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        made = copy.copy(self.part)
        made._parameters = {**made._parameters, "weight": 2 * self.part.weight}
        if not self.has_hooks:
            made._forward_hooks, made._modules = OrderedDict(), {}
        return made(self.read(x))


class Hookless(Unread):
    has_hooks = False


READ = pytest.mark.parametrize("read", ["read", "part", "*", ""])


@READ
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("kind", [Unread, Hookless])
def test_a_shallow_copy_of_a_part_is_a_copy(kind, read, mode):
    plain, model = built(kind), built(kind)
    watched, x = taiyi_fx.instrument(model, {read: ["OutputRMS"]}), torch.randn(3, 4)
    for each in (plain, watched):
        getattr(each, mode)()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)  # that the part is not called
        for step in range(3):
            assert torch.equal(watched(x), plain(x))
            watched.monitor.track(step)


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_shallow_copy_of_a_part_that_is_edited_is_a_copy():
    plain, model = built(Unread), built(Unread)
    cfg = {"part": [taiyi_fx.edit(value=lambda y: y + 1)]}
    watched, x = taiyi_fx.instrument(model, cfg), torch.randn(3, 4)
    for _ in range(2):
        assert torch.equal(watched(x), plain(x))


class GivesToStranger(nn.Module):
    """Gives the forward of a part to a module that is none of its own."""

    def __init__(self):
        super().__init__()
        self.part, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        stranger = nn.Linear(4, 4)
        stranger.forward, stranger._forward_hooks = self.part.forward, self.part._forward_hooks
        return self.last(stranger(x))


class CallsForward(nn.Module):
    """A part that calls the forward of a part of its own, or of one that is beside it."""

    def __init__(self, called):
        super().__init__()
        self.own, self.called = nn.Linear(4, 4), called

    def forward(self, x):
        return self.own.forward(x) + self.called[0].forward(x)


class Strategy(nn.Module):
    """As in gpytorch: the model's own call is its strategy's, which calls the model's forward."""

    def __init__(self, model):
        super().__init__()
        object.__setattr__(self, "model", model)

    def forward(self, x):
        return self.model.forward(x)


class WithStrategy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.strategy = nn.Linear(4, 4), Strategy(self)

    def forward(self, x):
        return self.fc(x)

    def __call__(self, x):
        return self.strategy(x)


class CallForwards(nn.Module):
    def __init__(self):
        super().__init__()
        self.beside = nn.Linear(4, 4)
        self.part = CallsForward([self.beside])

    def forward(self, x):
        return self.part(self.beside(x))


class GivesForward(nn.Module):
    """Gives a part the forward of another one for a while."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        self.other.forward = self.one.forward
        try:
            return self.other(x)
        finally:
            del self.other.forward


class Twin(nn.Linear):
    original = None

    def forward(self, x):
        return super().forward(x) if self.original is None else 2 * self.original.forward(x)


class CallsTwin(nn.Module):
    """Calls a shallow copy of a part, which calls the part's forward."""

    def __init__(self):
        super().__init__()
        self.part, self.last = Twin(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        twin = copy.copy(self.part)
        object.__setattr__(twin, "original", self.part)
        return self.last(twin(x))


@pytest.mark.parametrize("read", ["", "last"])
def test_a_copy_may_call_the_forward_of_what_it_is_a_copy_of(read):
    plain, model = built(CallsTwin), built(CallsTwin)
    watched, x = taiyi_fx.instrument(model, {read: ["OutputRMS"]}), torch.randn(3, 4)
    for _ in range(2):
        assert torch.equal(watched(x), plain(x))


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")  # that a part is not called
@pytest.mark.parametrize("kind", [CallForwards, WithStrategy, GivesForward, GivesToStranger])
@pytest.mark.parametrize("read", ["*", "", "Linear"])
def test_a_part_may_call_the_forward_of_another(kind, read):
    plain, model = built(kind), built(kind)
    watched, x = taiyi_fx.instrument(model, {read: ["OutputRMS"]}), torch.randn(3, 4)
    for step in range(3):
        if step == 2:
            watched.monitor.pause()
        made, expected = watched(x), plain(x)
        assert torch.equal(made, expected)
        assert torch.equal(model(x), expected)
        made.square().sum().backward()
        watched.monitor.track(step)


class Embedded(nn.Linear):
    def forward(self, x, embedding=0.0):
        return super().forward(x) + embedding


class AsksForArguments(nn.Module):
    """Gives the embedding to the parts whose forwards take one."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), Embedded(4, 4), nn.Linear(4, 4)])
        self.head = nn.Linear(4, 4)

    def forward(self, x, embedding):
        for layer in self.layers:
            takes_it = "embedding" in layer.forward.__code__.co_varnames
            x = layer(x, embedding) if takes_it else layer(x)
        return self.head(x)


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("read", ["head", "layers.1"])
def test_a_model_may_ask_for_the_arguments_of_a_forward_that_is_read(read, is_compiled):
    plain, model = built(AsksForArguments), built(AsksForArguments)
    watched = taiyi_fx.instrument(model, {read: ["OutputRMS"]})
    call = torch.compile(watched, backend="aot_eager") if is_compiled else watched
    x, embedding = torch.randn(3, 4), torch.randn(3, 4)
    for step in range(3):
        made, expected = call(x, embedding), plain(x, embedding)
        assert torch.equal(made, expected)
        made.sum().backward()
        watched.monitor.track(step)
    assert len(watched.monitor.records) == 3


class TwoReaders(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.activation = nn.Linear(4, 8), nn.ReLU()
        self.second, self.third = nn.Linear(8, 2), nn.Linear(8, 2)

    def forward(self, x):
        x = self.first(x)
        return self.second(self.activation(x)) + self.third(x)


def test_an_activation_may_be_set_in_place_later():
    """Then what the first layer returned is no longer what the third one is given."""
    watched = taiyi_fx.instrument(TwoReaders(), {"first": ["OutputRMS"], "third": ["InputRMS"]})
    x, given = torch.randn(16, 4), []
    watched.third.register_forward_pre_hook(lambda _, args: given.append(args[0].detach().clone()))
    for step, is_in_place in enumerate((False, True)):
        watched.activation.inplace = is_in_place
        watched(x).sum().backward()
        watched.monitor.track(step)
        expected = given[-1].double().square().mean().sqrt().item()
        assert watched.monitor.get_output()["third"]["InputRMS"][step] == pytest.approx(expected)


def test_replicas_of_an_instrumented_object_are_refused_with_the_reason():
    with pytest.raises(RuntimeError, match="use DistributedDataParallel"):
        taiyi_fx.instrument(built(Net), CFG)._replicate_for_data_parallel()


class Louder(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class LouderPart(Part):
    def forward(self, x):
        return 3 * super().forward(x)


class LouderNet(Net):
    def forward(self, x):
        return 5 * super().forward(x)


def swap_leaf(model):
    model.head.__class__ = Louder


def swap_parent(model):
    model.b.__class__ = LouderPart


def patched(kind, name, made):
    def change(_):
        if not getattr(kind, "is_patched", False):  # once for both
            PATCH.setattr(kind, name, made, raising=False)
            PATCH.setattr(kind, "is_patched", True, raising=False)

    return change


PATCH = pytest.MonkeyPatch()


@pytest.fixture
def undone():
    yield
    PATCH.undo()


@pytest.fixture(params=["linear(1, 0)", "linear(2, 0)", "linear(100, 50)"])
def cfg(request):
    return {nn.Linear: [["InputSndNorm", request.param], ["OutputGradSndNorm", request.param]]}


@BOTH
@pytest.mark.parametrize("change", [swap_leaf, swap_parent])
def test_another_class_of_a_part_counts_at_once(kind, change, cfg):
    assert_alike(*pair(kind, cfg), change, is_read=False)


def test_another_class_of_the_root_counts_at_once(cfg):
    plain, probed = pair(Net, cfg)
    model = probed._instrumentation.model

    def change(of):
        (model if of is probed else of).__class__ = LouderNet

    assert_alike(plain, probed, change, is_read=False)


def parametrized(model):
    parametrizations.weight_norm(model, "scale")


def no_longer_parametrized(model):
    parametrize.remove_parametrizations(model, "scale")


class ScaledNet(Net):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, 2))

    def forward(self, x):
        return super().forward(x) * self.scale


def parametrized_net():
    model = ScaledNet()
    parametrized(model)
    return model


@pytest.mark.parametrize("way", ["the model", "the instrumented object"])
@pytest.mark.parametrize(
    ("make", "change"),
    [(ScaledNet, parametrized), (parametrized_net, no_longer_parametrized)],
    ids=["put on", "taken off"],
)
def test_a_parametrization_of_the_root_later_is_the_models(make, change, way):
    plain, probed = pair(make)
    model = probed._instrumentation.model

    def changed(of):
        change(model if of is probed and way == "the model" else of)

    assert_alike(plain, probed, changed)
    assert probed.__class__ is type(model)
    assert type(model).__name__ == type(plain).__name__
    assert torch.equal(probed.scale, plain.scale)
    assert parametrize.is_parametrized(probed) == parametrize.is_parametrized(plain)


def test_another_class_of_the_model_brings_its_methods():
    class Other(LouderNet):
        def hello(self):
            return "hello"

    probed = taiyi_fx.instrument(built(Net), CFG)
    probed.__class__ = Other
    assert type(probed._instrumentation.model) is Other
    assert probed.hello() == "hello"
    assert isinstance(probed, taiyi_fx.InstrumentedModule)
    assert isinstance(probed, Other)
    step(probed)
    assert read(probed) == {"a.fc", "b.fc", "head"}


def wrapped(module):
    """Puts a function around a module's forward as Accelerate does, which keeps what it found."""
    old = module._old_forward = module.forward

    def forward(module, *args, **kwargs):
        return 3 * module._old_forward(*args, **kwargs)

    module.forward = functools.update_wrapper(functools.partial(forward, module), old)


def unwrapped(module):
    module.forward = module._old_forward
    del module._old_forward


class Wraps(Net):
    """Has a wrapper put around a part while the part is read."""

    is_to_wrap = False

    def forward(self, x):
        if self.is_to_wrap:
            self.is_to_wrap = False
            wrapped(self.b.fc)
        return super().forward(x)


@pytest.mark.parametrize("again", [False, True])
def test_a_forward_that_was_kept_while_it_was_read_may_be_put_back(again, cfg):
    plain, probed = pair(Wraps, cfg)
    for number in range(8):
        for model in (plain, probed):
            model.is_to_wrap = number == 2
            if number == 4:
                unwrapped(model.b.fc)
            if number == 5 and again:
                wrapped(model.b.fc)
        for a, b in zip(step(plain, number), step(probed, number), strict=True):
            assert a is None or torch.equal(a, b)
    model = probed._instrumentation.model
    probed.monitor.close()
    assert not any(isinstance(vars(m).get("forward"), ForwardOverride) for m in model.modules())


def louder_forward(self, x):
    return 7 * F.linear(x, self.weight, self.bias)


def louder_part(self, x):
    return 7 * self.fc(x)


def louder_net(self, x):
    return 7 * self.head(self.a(x))


def louder_call(self, *args):
    return 11 * nn.Module.__call__(self, *args)


@BOTH
@pytest.mark.parametrize(
    ("of", "name", "made"),
    [
        (nn.Linear, "forward", louder_forward),
        (Part, "forward", louder_part),
        (Net, "forward", louder_net),
        (nn.Linear, "__call__", louder_call),
        (Part, "__call__", louder_call),
        (Net, "__call__", louder_call),
    ],
)
@pytest.mark.usefixtures("undone")
def test_a_patched_class_counts_at_once(kind, of, name, made, cfg):
    assert_alike(*pair(kind, cfg), patched(of, name, made), is_read=False)


NAMES = ["monitor", "graph", "code", "capture", "recompile", "add_submodule", "__str__"]


class Named(Net):
    """Has something of its own under a name."""

    name: str

    def forward(self, x):
        assert self.ask() is not None
        return super().forward(x)

    def ask(self):
        return getattr(self, self.name)


def assert_reached(probed):
    assert isinstance(taiyi_fx.monitor_of(probed), taiyi_fx.Monitor)
    assert isinstance(taiyi_fx.graph_of(probed), torch.fx.Graph)
    assert "graph" in str(taiyi_fx.capture_of(probed))


@pytest.mark.parametrize("name", NAMES)
def test_an_attribute_of_the_models_own_wins(name):
    class Own(Named):
        def __init__(self):
            super().__init__()
            self.name = name
            setattr(self, name, "mine")

    plain, probed = pair(Own)
    assert getattr(probed, name) == probed.ask() == "mine"
    for model in (plain, probed):
        setattr(model, name, "set")
    assert getattr(probed._instrumentation.model, name) == probed.ask() == "set"
    assert_alike(plain, probed, lambda model: None)
    assert_reached(probed)


@pytest.mark.parametrize("name", NAMES)
def test_a_method_of_the_models_own_wins(name):
    plain, probed = pair(type("Own", (Named,), {"name": name, name: lambda self: "mine"}))
    assert getattr(probed, name)() == probed.ask()() == "mine"
    assert_alike(plain, probed, lambda model: None)
    assert_reached(probed)


@pytest.mark.parametrize("name", [name for name in NAMES if not hasattr(nn.Module, name)])
def test_a_part_of_the_models_own_wins(name):
    class Own(Named):
        def __init__(self):
            super().__init__()
            self.name = name
            self.add_module(name, nn.Linear(4, 4))

    plain, probed = pair(Own)
    assert getattr(probed, name) is probed.ask() is probed._instrumentation.model._modules[name]
    assert_alike(plain, probed, lambda model: None)
    assert_reached(probed)


def test_a_name_that_the_model_answers_wins():
    class Answers(Net):
        def __getattr__(self, name):
            return "mine" if name in ("monitor", "graph") else super().__getattr__(name)

    probed = taiyi_fx.instrument(Answers(), CFG)
    assert (probed.monitor, probed.graph) == ("mine", "mine")
    assert taiyi_fx.monitor_of(probed) is not probed.monitor
    assert probed.capture is taiyi_fx.capture_of(probed)


def test_a_name_of_ours_that_the_model_takes_later_is_the_models():
    probed = taiyi_fx.instrument(built(Net), CFG)
    probed.monitor = 3
    assert (probed.monitor, probed._instrumentation.model.monitor) == (3, 3)
    assert isinstance(taiyi_fx.monitor_of(probed), taiyi_fx.Monitor)


def test_a_dictionary_that_the_training_loop_shares_stays_shared():
    class Shares(Net):
        def __init__(self, state):
            super().__init__()
            self.state, self.seen = state, []

        def forward(self, x):
            self.seen.append(self.state["scale"])
            return super().forward(x) * self.state["scale"]

    states = {"scale": 1.0}, {"scale": 1.0}
    torch.manual_seed(0)
    plain = Shares(states[0])
    torch.manual_seed(0)
    model = Shares(states[1])
    probed, seen = taiyi_fx.instrument(model, CFG), model.seen
    assert_alike(plain, probed, lambda m: states[m is probed].update(scale=3.0))
    assert seen == plain.seen == [1.0, 1.0, 3.0, 3.0]


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held


class Held(nn.Module):
    """Holds a part where no walk over modules finds it; registered under another name, too."""

    ways: dict[str, Callable[[Any, nn.Module], Callable[[], nn.Module]]]

    def __init__(self, way):
        super().__init__()
        self.part, self.head = Part(), nn.Linear(4, 2)
        self.__dict__["find"] = self.ways[way](self, self.part)

    def forward(self, x):
        return self.head(self.find()(x))


def in_list(model, part):
    model.listed = [part]
    return lambda: model.listed[0]


def in_namespace(model, part):
    model.__dict__["actor"] = part
    return lambda: model.__dict__["actor"]


def in_slots(model, part):
    held = Slotted(part)
    return lambda: held.held


def in_cache(model, part):
    return functools.lru_cache(lambda: part)


def in_class(model, part):
    kind = type("Kind", (), {"part": part})
    return lambda: kind.part


def in_weak_dictionary(model, part):
    held = weakref.WeakValueDictionary({"part": part})
    return lambda: held["part"]


Held.ways = {f.__name__: f for f in (in_list, in_namespace, in_slots, in_cache, in_class, in_weak_dictionary)}  # fmt: skip


@pytest.mark.parametrize("way", Held.ways)
def test_a_part_found_elsewhere_is_the_same_part(way):
    plain, probed = pair(lambda: Held(way))
    assert_alike(plain, probed, lambda model: model.part.drop.eval())
    plain, probed = pair(lambda: Held(way))
    step(probed)
    assert read(probed) == {"part.fc", "head"}


@pytest.mark.parametrize("is_registered", [True, False])
def test_a_part_that_only_a_list_holds_follows_the_training_loop(is_registered):
    class Unregistered(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.parts = nn.Linear(4, 2), [Part()]
            if is_registered:
                self.registered = self.parts[0]

        def forward(self, x):
            return self.head(self.parts[0](x))

    assert_alike(*pair(Unregistered), lambda model: model.parts[0].eval())


def test_hooks_on_parameters_that_read_the_model_read_the_one_there_is():
    class Scales(Net):
        def __init__(self):
            super().__init__()
            self.factor = 1.0
            self.head.weight.register_hook(lambda g: g * self.factor)

    assert_alike(*pair(Scales), lambda model: setattr(model, "factor", 3.0))


def test_handles_taken_before_remove_the_hooks():
    handles, models = [], []
    for _ in range(2):
        models.append(built(Net))
        handles.append(models[-1].b.register_forward_hook(lambda module, args, y: 2 * y))
    probed = taiyi_fx.instrument(models[1], CFG)
    assert_alike(models[0], probed, lambda model: handles[model is probed].remove())


class LowRank(nn.Module):
    """A layer with low-rank adapters by name, as peft makes it in the layer's place."""

    def __init__(self, base: nn.Linear):
        super().__init__()
        self.base_layer = base
        generator = torch.Generator().manual_seed(1)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, 2, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, base.out_features, bias=False)})
        self.scaling, self.merged, self.active = {"default": 2.0}, False, ["default"]
        for weight in (self.lora_A["default"].weight, self.lora_B["default"].weight):
            nn.init.normal_(weight, generator=generator)

    def forward(self, x, *args, **kwargs):
        result = self.base_layer(x, *args, **kwargs)
        if self.merged:
            return result
        for name in self.active:
            given = x.to(self.lora_A[name].weight.dtype)
            result = result + self.lora_B[name](self.lora_A[name](given)) * self.scaling[name]
        return result

    def merge(self):
        for name in self.active:
            change = self.lora_B[name].weight @ self.lora_A[name].weight
            self.base_layer.weight.data += change * self.scaling[name]
        self.merged = True


def injected(model):
    """Adapters in place of layers, which are frozen, with the rest of the model."""
    model.requires_grad_(False)
    for parent in [m for m in model.modules() if isinstance(m, Part)]:
        parent.fc = LowRank(parent.fc)


def merged(model):
    injected(model)
    for adapter in [m for m in model.modules() if isinstance(m, LowRank)]:
        adapter.merge()
    model.head.requires_grad_(True)


def unloaded(model):
    merged(model)
    for parent in [m for m in model.modules() if isinstance(m, Part)]:
        parent.fc = parent.fc.base_layer


def tie(model):
    model.b.fc.weight = model.a.fc.weight


def untie(model):
    model.b.fc.weight = nn.Parameter(model.b.fc.weight.detach().clone())


def assigned(model):
    torch.manual_seed(5)
    model.load_state_dict(Net().state_dict(), assign=True)


def emptied(model):
    model.to_empty(device="cpu")
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.1)
            p.grad = None


def without_bias(model):
    model.head.bias = None


SURGERY = {
    "adapters": injected,
    "adapters merged": merged,
    "adapters merged and taken out": unloaded,
    "frozen": lambda model: model.a.requires_grad_(False),
    "pruned": lambda model: prune.l1_unstructured(model.a.fc, "weight", amount=0.5),
    "parametrized": lambda model: parametrizations.orthogonal(model.a.fc),
    "assigned": assigned,
    "emptied": emptied,
    "tied": tie,
    "without a bias": without_bias,
    "another head": lambda model: setattr(model, "head", copy.deepcopy(model.head)),
}


@BOTH
@pytest.mark.parametrize("change", SURGERY.values(), ids=SURGERY)
def test_surgery_later_is_the_models(kind, change):
    assert_alike(*pair(kind), change, is_read=False)


@BOTH
def test_a_layer_within_an_adapter_is_read_as_before(kind):
    probed = taiyi_fx.instrument(built(kind), {nn.Linear: ["InputAbsMax", "OutputGradAbsMax"]})
    injected(probed)
    twin = built(kind)
    injected(twin)
    torch.manual_seed(0)
    x = torch.randn(3, 4, requires_grad=True)
    probed(x).sum().backward()
    probed.monitor.track(0)
    found = probed.monitor.get_output()
    assert list(found) == ["a.fc", "b.fc", "head"]
    assert found["a.fc"]["InputAbsMax"][0] == x.abs().max()
    torch.manual_seed(0)
    torch.randn(3, 4)
    made = {}
    twin.a.fc.base_layer.register_forward_hook(
        lambda m, a, y: made.update(y=y) if y.retain_grad() is None else None
    )
    twin(x).sum().backward()
    assert found["a.fc"]["OutputGradAbsMax"][0] == made["y"].grad.abs().max()


def test_untying_later_is_the_models():
    def tied():
        model = Net()
        tie(model)
        return model

    assert_alike(*pair(tied), untie)


@BOTH
def test_an_average_of_the_model_is_plain_and_follows_it(kind):
    plain, probed = pair(kind)
    averages = [torch.optim.swa_utils.AveragedModel(probed._instrumentation.model), None]
    averages[1] = torch.optim.swa_utils.AveragedModel(plain)
    for number in range(3):
        for model, average in zip((probed, plain), averages, strict=True):
            step(model, number)
            average.update_parameters(model)
    a, b = (average.eval()(torch.ones(2, 4)) for average in averages)
    assert torch.equal(a, b)


def test_calls_with_other_parameters_compute_with_these():
    plain, probed = pair()
    given = {name: 2 * p.detach() for name, p in plain.named_parameters()}
    x = torch.randn(3, 4)
    found = []
    for model in (plain, probed):
        torch.manual_seed(0)
        found.append(torch.func.functional_call(model, given, (x,)))
    assert torch.equal(*found)
    assert_alike(plain, probed, lambda model: None)


class Asked(nn.Module):
    """Takes note of whoever asks its class for something, as one that hides a part may."""

    log: ClassVar[list[str]] = []

    def __init__(self):
        super().__init__()
        self.attention, self.fc = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        q = self.attention(x)
        return self.fc((q @ q.transpose(-1, -2)).softmax(-1) @ x)


def asked(name):
    def method(self, *args, **kwargs):
        Asked.log.append(name)
        return getattr(super(Asked, self), name)(*args, **kwargs)

    return method


def told(name):
    def get(self):
        Asked.log.append(name)
        raise RuntimeError

    return property(get)


METHODS = ("modules", "children", "parameters", "buffers")
for _name in (*METHODS, *(f"named_{name}" for name in METHODS), "get_submodule", "state_dict"):
    setattr(Asked, _name, asked(_name))
for _name in ("num_heads", "n_head", "config", "num_experts", "top_k", "inplace", "weight"):
    setattr(Asked, _name, told(_name))


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize(
    "cfg",
    [None, {"*": ["InputRMS", "OutputGradRMS", "BackwardInput", "AttentionEntropy", "RouterLoad"]}],
    ids=["preset", "all"],
)
def test_the_model_is_asked_for_nothing(cfg):
    model = nn.Sequential(Asked(), Asked())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    Asked.log.clear()
    instrumented = taiyi_fx.instrument(model, cfg, optimizer=optimizer)
    for step in range(3):
        instrumented(torch.randn(2, 3, 8)).square().sum().backward()
        instrumented.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    assert Asked.log == []
