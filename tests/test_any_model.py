"""Any model stays what it is, and each call of its parts is observed truly."""

from __future__ import annotations

import copy
import functools
import gc
import math
import pickle
import random
import subprocess
import sys
import threading
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import taiyi_fx
from taiyi_fx import MonitorWarning, output, quantity
from tests import hard_models
from tests.hard_models import Case, cases
from tests.one_rank import one_rank

CASES = cases()
BY_NAME = {case.name.removeprefix("hard/"): case for case in CASES}
# What plain hooks do not see, and probes do.
CALLED_PAST_HOOKS = {"hard/a bound method of a part", "hard/a child's forward called directly"}
# What `nn.Module.named_modules` takes for another part that it is equal to, and so do hooks here.
UNLISTED = {"hard/parts that are equal": {"last"}}
# Where some value cannot be read, which then has to be said.
SAID_INSTEAD = {
    "hard/a reentrant checkpoint",
    "hard/an output that is a parameter",
    "hard/a sparse tensor",
}


@quantity("output_snd_norm_in_test", norm=output.norm)
def output_snd_norm(norm):
    """Euclidean norm of the output."""
    return norm


NORMS = ["InputSndNorm", "output_snd_norm_in_test", "OutputGradSndNorm"]


def is_leaf(name: str, module: nn.Module) -> bool:
    return next(module.children(), None) is None


def is_any(name: str, module: nn.Module) -> bool:
    return True


def instrumented(model: nn.Module, cfg: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        return taiyi_fx.instrument(model, cfg, **options)


def tracked(model: Any, step: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        taiyi_fx.monitor_of(model).track(step)


def seed(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


def built(case: Case) -> nn.Module:
    seed(0)
    return case.build()


def batch(case: Case, n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    seed(n)
    return case.inputs(n)


def tensors(value: Any) -> Iterator[Tensor]:
    for part in flat(value):
        if isinstance(part, Tensor):
            yield part


def flat(value: Any) -> Iterator[Any]:
    """Everything in a structure that is none itself, and the kinds of structures."""
    parts: Any = None
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, (tuple, list)):
        parts = value
    elif is_dataclass(value):
        parts = [getattr(value, f.name) for f in fields(value)]
    if parts is None:
        yield value
    else:
        yield type(value)
        for part in parts:
            yield from flat(part)


def loss_of(value: Any) -> Tensor | None:
    parts = [t.to_dense() if t.is_sparse else t for t in tensors(value) if t.requires_grad]
    return sum(t.abs().double().square().sum() for t in parts) if parts else None


def train_step(model: Any, case: Case, n: int) -> list[Any]:
    """What a forward and a backward leave behind; moves the parameters."""
    args, kwargs = batch(case, n)
    seed(100 + n)
    found = model(*args, **kwargs)
    values = [v.detach().clone() if isinstance(v, Tensor) else v for v in flat(found)]
    loss = loss_of(found)
    if loss is not None:
        loss.backward()
    parameters = list(nn.Module.parameters(model))
    values += [None if p.grad is None else p.grad.clone() for p in parameters]
    return values


def move(model: nn.Module) -> None:
    with torch.no_grad():
        for p in nn.Module.parameters(model):
            if p.grad is not None:
                p.add_(p.grad, alpha=-0.01)
                p.grad = None


def run(model: Any, case: Case, sizes: tuple[int, ...] = (4, 3)) -> list[Any]:
    """Everything that training and evaluation leave behind, with the random streams' ends."""
    found: list[Any] = []
    for step, n in enumerate(sizes):
        found += train_step(model, case, n)
        if isinstance(model, taiyi_fx.InstrumentedModule):
            tracked(model, step)
        move(model)
        found += [b.clone() for b in nn.Module.buffers(model)]
    model.eval()
    args, kwargs = batch(case, 5)
    seed(200)
    found += [v.detach() if isinstance(v, Tensor) else v for v in flat(model(*args, **kwargs))]
    found += [*nn.Module.buffers(model), *(p.detach() for p in nn.Module.parameters(model))]
    return [*found, torch.get_rng_state(), random.random(), np.random.rand()]


def assert_same(plain: list[Any], probed: list[Any]) -> None:
    assert len(plain) == len(probed)
    for i, (a, b) in enumerate(zip(plain, probed, strict=True)):
        assert type(a) is type(b), f"result {i}"
        if isinstance(a, Tensor):
            torch.testing.assert_close(
                b, a, rtol=0, atol=0, equal_nan=True, msg=lambda text, i=i: f"result {i}: {text}"
            )
        else:
            assert a == b, f"result {i}"


class Watcher:
    """Ordinary hooks that read each call of the chosen modules, and the gradients of outputs."""

    def __init__(self, model: nn.Module, chosen: Callable[[str, nn.Module], bool]) -> None:
        self.calls: dict[str, list[dict[str, float]]] = defaultdict(list)
        self.waiting: dict[str, list[tuple[dict[str, float], list[int]]]] = defaultdict(list)
        self.sums: dict[tuple[int, str], Tensor] = {}
        self.is_in_forward = True
        for name, module in model.named_modules():
            if chosen(name, module) and not isinstance(module, torch.jit.ScriptModule):
                before, after = (functools.partial(f, name) for f in (self.before, self.after))
                module.register_forward_pre_hook(before, with_kwargs=True)
                module.register_forward_hook(after, with_kwargs=True, prepend=True)

    def before(self, name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        given = list(tensors((args, kwargs)))
        entry = {"InputSndNorm": norm(given[0])} if given else {}
        if self.is_in_forward:  # and not in the second run of a checkpoint
            self.calls[name].append(entry)
        self.waiting[name].append((entry, [id(t) for t in given]))

    def after(self, name: str, module: nn.Module, args: Any, kwargs: Any, made: Any) -> None:
        (entry, given), first = self.waiting[name].pop(), next(tensors(made), None)
        if first is None:
            return
        entry[output_snd_norm.name] = norm(first)
        if self.is_in_forward and first.requires_grad and torch.is_grad_enabled():
            # A hook sees all uses of a tensor: those of an input that is handed through, and
            # those inside a module that gives what it has used.
            is_sole = id(first) not in given and (made is first or is_leaf(name, module))
            label = "OutputGradSndNorm" if is_sole else "other gradients too"
            first.grad_fn  # noqa: B018 - else torch 2.13 crashes where a stale view gets a hook
            first.register_hook(functools.partial(self.gradient, entry, label))

    def gradient(self, entry: dict[str, float], label: str, g: Tensor) -> None:
        """Adds up what several backwards bring, as one inside the forward and that of the loss."""
        place, g = (id(entry), label), g.detach()
        self.sums[place] = self.sums[place] + g if place in self.sums else g.clone()
        entry[label] = norm(self.sums[place])


def watched(
    model: nn.Module, case: Case, chosen: Callable[[str, nn.Module], bool]
) -> dict[str, dict[str, float]]:
    """What ordinary hooks read at each call of the chosen modules in one training step."""
    watcher = Watcher(model, chosen)
    args, kwargs = batch(case, 4)
    seed(104)
    found = model(*args, **kwargs)
    watcher.is_in_forward = False
    loss = loss_of(found)
    if loss is not None:
        loss.backward()
    for name, left in watcher.waiting.items():  # calls that failed, which the model caught
        failed = [id(entry) for entry, _ in left]
        watcher.calls[name] = [e for e in watcher.calls[name] if id(e) not in failed]
    calls = watcher.calls.items()
    return {f"{n}@{i}" if i else n: e for n, all_ in calls for i, e in enumerate(all_)}


def norm(x: Tensor) -> float:
    x = x.detach().to_dense() if x.is_sparse else x.detach()
    return x.abs().double().norm().item()


CHOICES = pytest.mark.parametrize("chosen", [is_leaf, is_any], ids=["leaves", "every module"])
# Two thousand modules have a test of their own.
ALL = pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, marks=[pytest.mark.slow] if "150 deep" in c.name else [], id=repr(c))
        for c in CASES
        if "thousand" not in c.name
    ],
)
# torch.compile looks at `.grad` of tensors with hooks.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")


@ALL
@CHOICES
def test_it_computes_what_the_plain_model_computes(case: Case, chosen: Any):
    probed = instrumented(built(case), {chosen: NORMS})
    assert_same(run(built(case), case), run(probed, case))
    assert list(nn.Module.state_dict(probed)) == list(nn.Module.state_dict(built(case)))


@ALL
@CHOICES
def test_each_call_is_observed_truly(case: Case, chosen: Any):
    truth = watched(built(case), case, chosen)
    probed = instrumented(built(case), {chosen: NORMS})
    train_step(probed, case, 4)
    tracked(probed, 0)
    monitor = taiyi_fx.monitor_of(probed)
    found = monitor.get_output()
    expected = {name for name, entry in truth.items() if entry.keys() & set(NORMS)}
    scripted = {n for n, m in probed.named_modules() if isinstance(m, torch.jit.ScriptModule)}
    assert expected <= set(found)
    if case.name not in CALLED_PAST_HOOKS:
        others = scripted | UNLISTED.get(case.name, set())
        assert {n.partition("@")[0] for n in set(found) - expected} <= others
    for name, entry in truth.items():
        for label in entry.keys() & set(NORMS):
            if label in found[name]:
                true = pytest.approx(entry[label], rel=1e-4, nan_ok=True)
                assert found[name][label][0] == true, (name, label)
            else:
                assert case.name in SAID_INSTEAD, (name, label)
                assert (name, label) in monitor.missing, (name, label)


@ALL
def test_there_is_one_model_and_nothing_of_ours_in_it(case: Case):
    model = built(case)
    before = {name: dict(vars(m)) for name, m in model.named_modules()}
    kept = {name: (m._parameters, m._buffers) for name, m in model.named_modules()}
    held = {name: [dict(part) for part in parts] for name, parts in kept.items()}
    probed = instrumented(model, {is_any: NORMS})
    for name, module in model.named_modules():
        assert vars(module) == before[name], name
        for part, found in zip(held[name], kept[name], strict=True):
            assert [*map(id, part.values())] == [*map(id, found.values())], name
    assert vars(probed) is vars(model)
    truth = built(case)
    train_step(truth, case, 4)
    train_step(probed, case, 4)
    tracked(probed, 0)
    own = dict(probed.named_modules())
    for (name, module), plain in zip(model.named_modules(), truth.modules(), strict=True):
        assert vars(module).keys() == vars(plain).keys(), name
        assert own[name] is module or not name, name


@ALL
def test_a_copy_computes_what_a_copy_of_the_model_computes(case: Case):
    model = built(case)
    try:
        copied = copy.deepcopy(model)
        truth = run(copied, case)
    except (RuntimeError, TypeError, ValueError, AttributeError):
        pytest.skip("the model itself cannot be copied")
    original = instrumented(built(case), {is_leaf: NORMS})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        probed = copy.deepcopy(original)
    assert isinstance(probed, taiyi_fx.InstrumentedModule)
    assert_same(truth, run(probed, case))


class Net(nn.Module):
    """An ordinary model, with methods beside its forward."""

    kind = "net"

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.config = {"width": width}
        self.encoder = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU())
        self.head = nn.Linear(width, 4)

    def encode(self, x):
        return self.encoder(x) * 2

    def forward(self, x):
        return self.head(self.encode(x))

    @torch.no_grad()
    def generate(self, x, steps):
        for _ in range(steps):
            x = self(x)
        return x

    def grown(self):
        return type(self)(self.config["width"])

    @property
    def width(self):
        return self.config["width"]


CFG = {is_leaf: NORMS}


def pair(build: Callable[[], nn.Module] = Net, cfg: Any = CFG) -> tuple[nn.Module, Any]:
    """The same model twice, the second instrumented."""
    seed(0)
    plain = build()
    seed(0)
    return plain, instrumented(build(), cfg)


def data(n: int = 3) -> Tensor:
    seed(n)
    return torch.randn(n, 4)


def step(model: Any, x: Tensor, at: int = 0) -> None:
    model(x).square().sum().backward()
    tracked(model, at)


def read(model: Any, at: int = 0) -> dict[tuple[str, str], float]:
    return {
        (r.module, r.quantity): r.value for r in taiyi_fx.monitor_of(model).records if r.step == at
    }


def assert_same_gradients(plain: nn.Module, probed: nn.Module) -> None:
    for (name, a), b in zip(plain.named_parameters(), probed.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        assert a.grad is None or torch.equal(a.grad, b.grad), name


def test_the_gradient_of_a_view_that_was_changed_through_another_does_not_crash():
    code = """
import torch, taiyi_fx
from tests.hard_models.in_place import InPlaceOnViews
model = taiyi_fx.instrument(InPlaceOnViews(), {"": ["OutputGradSndNorm"]})
model(torch.randn(2, 3, 4)).sum().backward()
model.monitor.track(0)
assert model.monitor.records or model.monitor.missing
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-300:]


@pytest.mark.parametrize("change", ["y += x", "relu_"])
def test_the_gradient_of_a_linear_layer_on_sequences_is_read_before_a_change_in_place(change):
    class Changed(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            y = self.fc(x)
            if change == "relu_":
                return torch.relu_(y)
            y += x
            return y

    plain, probed = pair(Changed)
    x = torch.randn(2, 3, 4)
    step(probed, x)
    y = plain.fc(x).detach().requires_grad_()
    (y.relu() if change == "relu_" else y + x).square().sum().backward()
    found = read(probed)
    assert found["fc", "OutputGradSndNorm"] == pytest.approx(norm(y.grad), rel=1e-5)


@pytest.mark.slow
def test_200_nested_modules_run():
    build = hard_models.layers.Nest
    case = Case("nested", lambda: build(200), hard_models.case.rows)
    assert_same(run(built(case), case), run(instrumented(built(case), CFG), case))


@pytest.mark.slow
def test_two_thousand_modules_run():
    build = hard_models.layers.chain
    case = Case("chain", lambda: build(2000), hard_models.case.rows)
    plain, probed = built(case), instrumented(built(case), CFG)
    found = [[*train_step(model, case, 4)] for model in (plain, probed)]
    assert_same(*found)
    tracked(probed, 0)
    assert len(read(probed)) == 3 * 2000


def test_wrapped_models_are_refused_with_what_to_do():
    def wrapped():
        with pytest.raises(TypeError, match=r"DistributedDataParallel\(instrument"):
            taiyi_fx.instrument(nn.parallel.DistributedDataParallel(Net()), CFG)
        plain, probed = pair()
        parallel = nn.parallel.DistributedDataParallel(probed)
        assert torch.equal(parallel(data()), plain(data()))
        parallel(data()).square().sum().backward()
        tracked(probed, 0)
        assert ("head", "OutputGradSndNorm") in read(probed)

    with one_rank():
        wrapped()
    with pytest.raises(TypeError, match="before it is wrapped"):
        taiyi_fx.instrument(hard_models.quietly(torch.jit.script, Net().head), CFG)


def test_a_wrapped_part_is_refused_or_observed():
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.DataParallel(Net())

        def forward(self, x):
            return self.net(x)

    plain, probed = pair(Holds)
    assert torch.equal(probed(data()), plain(data()))
    step(probed, data())
    assert ("net.module.head", "InputSndNorm") in read(probed)


def test_gradients_inside_a_reentrant_checkpoint_are_said_and_values_counted_once():
    case = BY_NAME["a reentrant checkpoint"]
    probed = taiyi_fx.instrument(built(case), {"body.0": NORMS})
    train_step(probed, case, 4)
    with pytest.warns(MonitorWarning, match="OutputGradSndNorm of 'body.0': .*(no_grad|reentrant)"):
        probed.monitor.track(0)
    (args, _), plain = batch(case, 4), built(case)
    value = read(probed)["body.0", "InputSndNorm"]
    assert value == pytest.approx(norm(plain.stem(*args)), rel=1e-5)


def test_hooks_run_once_for_each_call_whenever_registered():
    for late in (False, True):
        calls: list[str] = []
        model = Net()
        probed = model if late else instrumented(model, CFG)
        probed.head.register_forward_hook(lambda *_: calls.append("forward"))
        probed.head.register_forward_pre_hook(lambda *_: calls.append("pre"))
        probed.head.register_full_backward_hook(lambda *_: calls.append("backward"))
        probed.register_forward_hook(lambda *_: calls.append("root"))
        probed = instrumented(model, CFG) if late else probed
        step(probed, data())
        assert sorted(calls) == ["backward", "forward", "pre", "root"]
        assert ("head", "OutputGradSndNorm") in read(probed)


def through_gradient(model, x):
    return torch.func.grad(lambda y: model(y).sum())(x)


def through_vmap(model, x):
    return torch.vmap(model)(x)


@pytest.mark.parametrize("transform", [through_gradient, through_vmap])
def test_functional_transforms_go_through_and_are_said_not_to_be_read(transform: Any):
    plain, probed = pair(lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    assert torch.equal(transform(probed, data()), transform(plain, data()))
    tracked(probed, 0)
    assert read(probed) == {}
    assert "outside of torch.func" in probed.monitor.missing["0", "OutputGradSndNorm"]


@pytest.mark.parametrize(
    "kind", [hard_models.machinery.Compiled, hard_models.machinery.CompiledInPlace]
)
def test_a_compiled_part_is_refused_with_what_to_do(kind: type[nn.Module]):
    with pytest.raises(TypeError, match="'first' of the model was compiled .* instrument first"):
        taiyi_fx.instrument(kind(), CFG)


def test_a_script_module_is_said_to_be_unobservable():
    model = hard_models.machinery.Scripted()
    with pytest.warns(MonitorWarning, match="'first': is a ScriptModule"):
        probed = taiyi_fx.instrument(model, {is_leaf: NORMS})
    step(probed, torch.randn(2, hard_models.D))
    assert {name for name, _ in read(probed)} == {"last"}
    with pytest.raises(taiyi_fx.ConfigError, match="'first' .* is a ScriptModule"):
        taiyi_fx.instrument(model, {"first": NORMS})


@pytest.mark.parametrize(
    "twice", ["penalty", "retain_graph", "two forwards", "one output detached"]
)
def test_other_ways_to_go_backward_give_the_same_gradients(twice: str):
    plain, probed = pair()
    for model in (plain, probed):
        x = data().requires_grad_()
        y = model(x)
        if twice == "penalty":
            (g,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
            (y.sum() + g.square().sum()).backward()
        elif twice == "retain_graph":
            y.sum().backward(retain_graph=True)
            y.square().sum().backward()
        elif twice == "two forwards":
            (y - model(2 * x)).square().sum().backward()
        else:
            (y.detach() * model(2 * x)).sum().backward()
    assert_same_gradients(plain, probed)
    tracked(probed, 0)
    assert ("head", "OutputGradSndNorm") in read(probed)


def test_two_forwards_before_one_backward_are_joined():
    _, probed = pair(lambda: nn.Sequential(nn.Linear(4, 4)))
    a, b = data(2), data(3)
    (probed(a).sum() + probed(b).sum()).backward()
    tracked(probed, 0)
    found = read(probed)
    assert found["0", "InputSndNorm"] == pytest.approx(norm(torch.cat([a, b])), rel=1e-5)
    assert found["0", "OutputGradSndNorm"] == pytest.approx(math.sqrt(5 * 4), rel=1e-5)


def test_freezing_later_is_followed_and_said():
    plain, probed = pair()
    for model in (plain, probed):
        model.encoder.requires_grad_(False)
        model(data()).sum().backward()
    assert_same_gradients(plain, probed)
    tracked(probed, 0)
    assert ("encoder.0", "OutputGradSndNorm") in probed.monitor.missing
    assert ("head", "OutputGradSndNorm") in read(probed)


@pytest.mark.parametrize("convert", ["half", "double", "bfloat16"])
def test_conversions_later_reach_the_model(convert: str):
    plain, probed = pair(hard_models.state.AsksForDtype)
    for model in (plain, probed):
        getattr(model, convert)()
        model(data()).square().sum().backward()
    assert_same_gradients(plain, probed)
    assert next(probed.parameters()).dtype == getattr(torch, convert)
    assert torch.equal(plain(data()), probed(data()))


def test_loading_a_state_reaches_the_model():
    plain, probed = pair()
    seed(1)
    other = Net()
    plain.load_state_dict(other.state_dict())
    probed.load_state_dict(other.state_dict())
    probed.load_state_dict(other.state_dict(), assign=True)
    assert torch.equal(plain(data()), probed(data()))


def test_a_new_head_runs_and_trains():
    plain, probed = pair()
    for model in (plain, probed):
        seed(2)
        model.head = nn.Linear(4, 2)
        model.register_module("extra", nn.Tanh())
        model.encoder[2] = nn.GELU()
        model(data()).sum().backward()
    assert_same_gradients(plain, probed)
    assert list(plain.state_dict()) == list(probed.state_dict())
    assert torch.equal(plain(data()), probed(data()))


def test_a_replaced_part_that_was_to_be_observed_is_said():
    _, probed = pair()
    probed.head = nn.Linear(4, 2)
    step(probed, data())
    assert ("head", "InputSndNorm") in {**read(probed), **probed.monitor.missing}


def test_methods_properties_and_attributes_answer():
    plain, probed = pair()
    plain.eval()
    probed.eval()
    assert torch.equal(plain.encode(data()), probed.encode(data()))
    assert torch.equal(plain.encoder(data()), probed.encoder(data()))
    assert torch.equal(plain.generate(data(), 3), probed.generate(data(), 3))
    assert (probed.width, probed.kind, probed.config) == (4, "net", {"width": 4})


def test_its_class_builds_a_plain_model_again():
    made = instrumented(Net(), CFG).grown()
    assert isinstance(made, Net)
    assert torch.isfinite(made(data())).all()


def test_a_method_beside_the_forward_is_plain_and_unread():
    plain, probed = pair()
    plain.encode(data()).sum().backward()
    probed.encode(data()).sum().backward()
    assert_same_gradients(plain, probed)
    tracked(probed, 0)
    assert not read(probed)


def test_threads_evaluate_at_the_same_time():
    plain, probed = pair()
    plain.eval()
    probed.eval()
    batches = [data(n) for n in range(1, 9)]
    found: dict[int, Tensor] = {}

    def evaluate(i: int) -> None:
        for _ in range(20):
            found[i] = probed(batches[i])

    threads = [threading.Thread(target=evaluate, args=(i,)) for i in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, x in enumerate(batches):
        assert torch.equal(found[i], plain(x)), i


class Fails(nn.Module):
    """Raises, between two parts, whatever it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.error: list[BaseException] = []

    def forward(self, x):
        x = self.first(x)
        if self.error:
            raise self.error.pop()
        return self.last(x)


@pytest.mark.parametrize("error", [RuntimeError("no memory"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("tracks", [True, False], ids=["next step", "same step"])
def test_a_forward_that_failed_leaves_no_trace(error: BaseException, tracks: bool):
    probed = instrumented(Fails(), CFG)
    probed.error.append(error)
    with pytest.raises(type(error)):
        probed(100 * data())
    if tracks:
        text = "OutputGradSndNorm of 'first': no gradient reached it"
        with pytest.warns(MonitorWarning, match=text):
            probed.monitor.track(0)
    step(probed, data(), at=1)
    found = read(probed, 1)
    assert found["first", "InputSndNorm"] == pytest.approx(norm(data()), rel=1e-5)
    assert {name for name, _ in found} == {"first", "last"}


@pytest.mark.parametrize(
    ("part", "read_first"),
    [(nn.Linear(4, 4), "part"), (nn.Sequential(nn.Linear(4, 4), nn.Tanh()), "part.0")],
    ids=["module", "graph"],
)
def test_a_call_that_fails_and_that_the_model_catches_is_none(part: nn.Module, read_first: str):
    class Tries(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = part

        def forward(self, x):
            try:
                return self.part(100 * x, lengths=None)
            except TypeError:
                return self.part(x)

    probed = instrumented(Tries(), CFG)
    for n in (2, 3):
        probed(data(n)).sum().backward()
    tracked(probed, 0)
    both = torch.cat([data(2), data(3)])
    leaves = {name for name, module in probed.named_modules() if is_leaf(name, module)}
    assert {name for name, _ in read(probed)} == leaves
    assert read(probed)[read_first, "InputSndNorm"] == pytest.approx(norm(both), rel=1e-5)


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, y):
        return self.b(self.a(x).relu() + y)


class TriesHalves(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Halves()

    def forward(self, x):
        try:
            return self.part(100 * x, x[:, :3])
        except RuntimeError:
            return self.part(x, x)


def test_what_was_read_in_a_call_that_fails_half_way_does_not_count():
    probed = instrumented(TriesHalves(), CFG)
    for step, n in enumerate((2, 3, 2)):
        probed(data(n)).sum().backward()
        tracked(probed, step)
        assert read(probed, step)["part.a", "InputSndNorm"] == pytest.approx(
            norm(data(n)), rel=1e-5
        )
        assert {name for name, _ in read(probed, step)} == {"part.a", "part.b"}


def test_a_profiler_around_it_all_changes_nothing_and_is_left_in_place():
    def trained(model: nn.Module) -> list[Any]:
        for n in (2, 3):
            model(data(n)).square().sum().backward()
        return [p.grad for p in model.parameters()]

    plain, probed = pair()
    expected = trained(plain)
    seen: list[str] = []

    def profile(frame: Any, event: str, arg: Any) -> None:
        seen.append(event)

    model = pair()[0]
    sys.setprofile(profile)
    try:
        watched_one = instrumented(model, CFG)
        found = trained(watched_one)
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert seen
    assert str(watched_one.capture) == str(probed.capture)
    assert all(map(torch.equal, expected, found))


def test_a_failed_backward_leaves_the_next_step_right():
    probed = instrumented(Net(), CFG)
    with pytest.raises(RuntimeError):
        probed(data()).backward()
    tracked(probed, 0)
    step(probed, data(), at=1)
    assert read(probed, 1)["encoder.0", "InputSndNorm"] == pytest.approx(norm(data()), rel=1e-5)


@pytest.mark.parametrize("order", ["before", "after"])
def test_an_optimizer_made_before_or_after_trains_the_same(order: str):
    plain, model = Net(), Net()
    model.load_state_dict(plain.state_dict())
    early = torch.optim.Adam(model.parameters(), 0.1)
    probed = instrumented(model, CFG)
    late = torch.optim.Adam(probed.parameters(), 0.1)
    optimizers = (torch.optim.Adam(plain.parameters(), 0.1), early if order == "before" else late)
    for net, optimizer in zip((plain, probed), optimizers, strict=True):
        for n in (2, 3, 4):
            net(data(n)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert_same([*plain.state_dict().values()], [*probed.state_dict().values()])


@pytest.mark.parametrize(
    "name", ["an LSTM", "a UNet", "attention", "a branch on data", "tied weights"]
)
def test_a_pickle_computes_the_same(name: str):
    case = BY_NAME[name]
    probed = instrumented(built(case), {is_leaf: NORMS})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonitorWarning)
        loaded = pickle.loads(pickle.dumps(probed))
    assert_same(run(built(case), case), run(loaded, case))
    assert list(loaded.state_dict()) == list(built(case).state_dict())


def test_a_part_that_keeps_a_weak_reference_outlives_the_plain_model():
    case = BY_NAME["a weak reference to the parent"]
    model = built(case)
    probed = instrumented(model, CFG)
    del model
    gc.collect()
    assert_same(run(built(case), case), run(probed, case))


@pytest.mark.parametrize("name", ["a UNet", "a branch on data", "a bound method of its own"])
def test_the_plain_model_and_the_instrumented_one_are_freed(name: str):
    case = BY_NAME[name]
    model = built(case)
    probed = instrumented(model, {is_any: NORMS})
    plain_dies, probed_dies = weakref.ref(model), weakref.ref(probed)
    train_step(probed, case, 4)
    tracked(probed, 0)
    del probed
    gc.collect()
    assert probed_dies() is None
    assert plain_dies() is model
    del model
    gc.collect()
    assert plain_dies() is None


def test_instrumenting_often_keeps_memory_flat():
    model, x = Net(), data()

    def once() -> None:
        probed = instrumented(model, CFG)
        step(probed, x)

    def objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    for _ in range(5):
        once()
    before = objects()
    for _ in range(100):
        once()
    assert objects() - before < 300  # less than three objects each


IN_PLACE_BESIDE_INPUT = {
    "the module before": {"fc": NORMS},
    "its values": {"identity": ["InputSndNorm", "output_snd_norm_in_test"]},
}


@pytest.mark.parametrize("cfg", IN_PLACE_BESIDE_INPUT.values(), ids=IN_PLACE_BESIDE_INPUT)
def test_an_input_handed_through_changed_in_place_and_used_again(cfg: Any):
    class HandsThrough(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.identity = nn.Linear(4, 4), nn.Identity()

        def forward(self, x):
            x = self.fc(x)
            y = self.identity(x)
            y *= 3
            return y + x

    plain, probed = pair(HandsThrough, cfg)
    for model in (plain, probed):
        model(data()).square().sum().backward()
    assert_same_gradients(plain, probed)
    assert torch.equal(plain(data()), probed(data()))
