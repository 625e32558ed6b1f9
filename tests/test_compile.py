"""Compiled with fullgraph=True: no breaks, the eager values, one graph for each due set."""

import contextlib
import copy
import dataclasses
import gc
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

import taiyi_fx
from taiyi_fx.quantities.declare import find_quantity, quantity_names
from tests.examples import some_or_all


class Transformer(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.o(F.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h)))
        return x + self.mlp(self.norm2(x))


class Python(nn.Module):
    """Stays Python and calls one module twice."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x, mask=None):
        if mask is not None:
            x = x * mask
        return self.fc(self.fc(x).relu())


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(inplace=True), nn.Linear(16, 4)), (8, 8)),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 4, 3),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2),
        ),
        (4, 3, 8, 8),
    ),
    "transformer": (Transformer, (2, 5, 16)),
    "python": (Python, (4, 8)),
    "torch's own": (lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), (2, 5, 16)),
}  # fmt: skip

EVERY = ["InputSndNorm", "InputMean", "InputStd", "OutputGradSndNorm", "RankMe", "DeadNeuronRatio"]
SOMETIMES = ["InputCovMaxEig", "OutputGradCovStableRank", "InputCovCondition"]
CFG = {nn.Module: [*EVERY, *([name, "linear(2, 0)"] for name in SOMETIMES)]}


def train(model, run, xs):
    has_attention = "self_attn" in dict(model.named_modules())
    with pytest.warns(taiyi_fx.MonitorWarning) if has_attention else contextlib.nullcontext():
        for step, x in enumerate(xs):
            model.zero_grad()
            y = run(x)
            # Behind a norm, the gradient of a sum of squares would be nothing but rounding.
            (y - torch.linspace(0, 1, y.numel()).view_as(y)).square().mean().backward()
            model.monitor.track(step)
    return [p.grad for p in model.parameters()]


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *((name, "aot_eager") for name in MODELS),
        # Each kind of layer once: the kernels of the others are of the same operators and ranks.
        *((name, "inductor") for name in ("cnn", "python")),
        pytest.param("transformer", "inductor", marks=pytest.mark.exhaustive),
    ],
)
def test_compiled_values_are_the_eager_ones(name, backend):
    make, shape = MODELS[name]
    xs = [torch.randn(shape) for _ in range(5)]
    counters.clear()
    eager, compiled = trained_both_ways(make(), CFG, xs, backend)
    assert counters["stats"]["unique_graphs"] == 2  # one for each set of due readings
    assert not counters["graph_break"]
    assert_same_records(eager.monitor.records, compiled.monitor.records)


def trained_both_ways(model, cfg, xs, backend="aot_eager", *, rtol=1e-3, atol=1e-5, **options):
    """The model instrumented and trained twice, with the same gradients: eager, and as one graph."""
    eager, compiled = (taiyi_fx.instrument(copy.deepcopy(model), cfg) for _ in range(2))
    run = torch.compile(compiled, fullgraph=True, backend=backend, **options)
    gradients = train(eager, eager, xs), train(compiled, run, xs)
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, rtol=rtol, atol=atol)
    return eager, compiled


def assert_same_records(expected, found):
    # Where compiled and eager code took turns, records of a step stand in another order.
    expected, found = (sorted(rs, key=lambda r: (r.step, r.module, r.quantity)) for rs in (expected, found))  # fmt: skip
    keys = [(r.step, r.module, r.quantity) for r in expected]
    assert keys == [(r.step, r.module, r.quantity) for r in found]
    for a, b in zip(expected, found, strict=True):
        assert_close(a, b)


def assert_close(a, b):
    # A condition number of a deficient input is rounding over rounding, or infinite.
    if a.quantity == "InputCovCondition" and not min(a.value, b.value) < 1e4:
        return
    assert b.value == pytest.approx(a.value, rel=2e-2, abs=1e-5, nan_ok=True), (a, b)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_model_in_float64_keeps_its_values_when_compiled(backend):
    model = taiyi_fx.instrument(MODELS["mlp"][0]().double(), {"0": ["InputSndNorm", "InputMean"]})
    x = torch.randn(8, 8, dtype=torch.float64)
    torch.compile(model, fullgraph=True, backend=backend)(x).sum().backward()
    model.monitor.track(0)
    output = model.monitor.get_output()["0"]
    assert output["InputSndNorm"][0] == pytest.approx(x.norm().item(), rel=1e-12)
    assert output["InputMean"][0] == pytest.approx(x.mean().item(), rel=1e-9)


@pytest.mark.parametrize("name", ["mlp", "python"])
def test_micro_batches_fold_in_compiled_code_too(name):
    make, shape = MODELS[name]
    model = make()
    cfg = {nn.Linear: ["InputSndNorm", "InputCovMaxEig", "OutputGradSndNorm"]}
    eager, compiled = (taiyi_fx.instrument(copy.deepcopy(model), cfg) for _ in range(2))
    run = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    for step in range(2):
        for x in torch.randn(3, *shape):
            eager(x).square().mean().backward()
            run(x).square().mean().backward()
        eager.monitor.track(step)
        compiled.monitor.track(step)
    assert_same_records(eager.monitor.records, compiled.monitor.records)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_two_forwards_that_are_compiled_as_one_fold_too(backend):
    names = ["InputSndNorm", "ForwardInput", "InputCovMaxEig", "RankMe", "OutputGradSndNorm"]
    cfg = {nn.Linear: [*names, "OutputGradCovMaxEig"]}
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 6))
    eager, compiled = (taiyi_fx.instrument(copy.deepcopy(model), cfg) for _ in range(2))

    def loss(judge, real, made):
        return judge(real).square().mean() - judge(made).mean()

    run = torch.compile(loss, fullgraph=True, backend=backend)
    for step in range(2):
        real, made = torch.randn(2, 5, 20)
        loss(eager, real, made).backward()
        run(compiled, real, made).backward()
        eager.monitor.track(step)
        compiled.monitor.track(step)
    expected, found = (m.monitor.records for m in (eager, compiled))
    assert len(expected) == len(found) == 28
    for a, b in zip(expected, found, strict=True):
        pair = torch.as_tensor(b.value), torch.as_tensor(a.value)
        torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-6, check_dtype=False)
    for a, b in zip(eager.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_a_gradient_of_two_forwards_that_are_compiled_as_one_is_told():
    model = taiyi_fx.instrument(MODELS["mlp"][0](), {"0": ["BackwardOutput", "OutputGradSndNorm"]})
    run = torch.compile(lambda a, b: (model(a) - model(b)).sum(), backend="aot_eager")
    run(torch.randn(3, 8), torch.randn(3, 8)).backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="BackwardOutput of '0'.*two forwards"):
        model.monitor.track(0)
    assert list(model.monitor.get_output()["0"]) == ["OutputGradSndNorm"]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_what_depends_on_a_gradients_shape_alone_starts_anew_each_step(backend):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    cfg = {"0": [count_of_gradients, "OutputGradCovMaxEig", "OutputGradRMS"]}
    eager, compiled = (taiyi_fx.instrument(copy.deepcopy(model), cfg) for _ in range(2))
    run = torch.compile(compiled, fullgraph=True, backend=backend)
    for step in range(3):
        for x in (torch.randn(3, 4), torch.randn(2, 4)):
            eager(x).square().sum().backward()
            run(x).square().sum().backward()
        eager.monitor.track(step)
        compiled.monitor.track(step)
    for a, b in zip(eager.monitor.records, compiled.monitor.records, strict=True):
        assert b.value == pytest.approx(a.value, rel=1e-5), (a, b)


@taiyi_fx.quantity("count_of_gradients_in_test", n=taiyi_fx.output_grad.count)
def count_of_gradients(n):
    """Number of elements of the gradient."""
    return n


def test_a_window_holds_each_of_its_steps_in_compiled_code():
    cfg = {nn.BatchNorm2d: [["MeanTID", "linear(3, 2)"]], "0": ["WeightParamJump"]}
    make, shape = MODELS["cnn"]
    xs = [torch.randn(shape) * (1 + i) for i in range(6)]
    eager, compiled = trained_both_ways(make(), cfg, xs)
    for a, b in zip(eager.monitor.records, compiled.monitor.records, strict=True):
        assert b.value == pytest.approx(a.value, rel=1e-4), (a, b)


def test_batches_of_other_sizes_and_raw_values_in_compiled_code():
    cfg = {nn.Linear: ["RankMe", "ForwardInput", "InputCovMaxEig", "InputSndNorm"]}
    xs = [torch.randn(n, 8) for n in (32, 32, 7, 3, 20)]
    eager, compiled = trained_both_ways(MODELS["mlp"][0](), cfg, xs)
    assert len(eager.monitor.records) == len(compiled.monitor.records) == 50
    for a, b in zip(eager.monitor.records, compiled.monitor.records, strict=True):
        pair = torch.as_tensor(b.value), torch.as_tensor(a.value)
        torch.testing.assert_close(*pair, rtol=1e-3, atol=1e-5, check_dtype=False)


def test_gradients_themselves_are_kept_where_their_size_is_fixed():
    cfg = {nn.Linear: ["BackwardOutput", "BackwardInput", "OutputGradSndNorm", "PerSampleGradNorm"]}
    xs = [torch.randn(n, 8, requires_grad=True) for n in (8, 8, 3)]
    eager, compiled = trained_both_ways(MODELS["mlp"][0](), cfg, xs, dynamic=False)
    assert len(eager.monitor.records) == len(compiled.monitor.records)
    for a, b in zip(eager.monitor.records, compiled.monitor.records, strict=True):
        pair = torch.as_tensor(b.value), torch.as_tensor(a.value)
        torch.testing.assert_close(*pair, rtol=1e-3, atol=1e-6, check_dtype=False)


def test_where_the_size_is_left_open_that_is_said():
    model = taiyi_fx.instrument(MODELS["mlp"][0](), {"0": ["BackwardOutput", "OutputGradSndNorm"]})
    run = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    run(torch.randn(6, 8)).sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="BackwardOutput of '0'.*batch's size"):
        model.monitor.track(0)
    assert list(model.monitor.get_output()["0"]) == ["OutputGradSndNorm"]


def test_a_gradient_that_never_came_is_said_in_compiled_code_too():
    class Aside(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.aside = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.used(x) + self.aside(x).detach()

    with pytest.warns(taiyi_fx.MonitorWarning, match="'aside': no gradient can reach it"):
        model = taiyi_fx.instrument(Aside(), {nn.Linear: ["OutputGradSndNorm"]})
    run = torch.compile(model, fullgraph=True, backend="aot_eager")
    run(torch.randn(2, 4)).sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="OutputGradSndNorm of 'aside': no gradient"):
        model.monitor.track(0)
    assert list(model.monitor.get_output()) == ["used"]


def test_an_output_that_the_loss_leaves_out_has_a_gradient_of_zero_in_compiled_code():
    """Compiled backward is given zeros for it, where eager backward is given nothing."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.aside = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.used(x), self.aside(x)

    model = taiyi_fx.instrument(Two(), {"aside": ["OutputGradSndNorm"]})
    run = torch.compile(model, fullgraph=True, backend="aot_eager")
    run(torch.randn(2, 4))[0].sum().backward()
    model.monitor.track(0)
    assert model.monitor.get_output()["aside"]["OutputGradSndNorm"] == {0: 0.0}


def test_many_models_compile_in_one_process():
    for i in range(12):
        model = taiyi_fx.instrument(nn.Sequential(nn.Linear(4, 4)), {"0": [["InputSndNorm", f"linear(1, {i % 2})"]]})  # fmt: skip
        run = torch.compile(model, backend="eager", fullgraph=True)
        for step in range(2):
            run(torch.ones(2, 4)).sum().backward()
            model.monitor.track(step)
        assert model.monitor.get_output()["0"]["InputSndNorm"][1] == pytest.approx(8**0.5)


def test_each_set_of_due_quantities_is_compiled_once_however_many_there_are():
    schedules = ("linear(2, 0)", "linear(3, 0)", "linear(4, 1)", "linear(5, 0)")
    names = ("InputSndNorm", "OutputAbsMax", "InputAbsMax", "OutputGradSndNorm")
    cfg = {"0": [list(pair) for pair in zip(names, schedules, strict=True)]}
    sets = {tuple(schedule(step) for schedule in map(is_due, schedules)) for step in range(60)}
    assert len(sets) == 12
    counters.clear()
    model, xs = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), [torch.randn(3, 4) for _ in range(60)]
    eager, compiled = trained_both_ways(model, cfg, xs, "eager")
    assert counters["stats"]["unique_graphs"] == len(sets)
    assert_same_records(eager.monitor.records, compiled.monitor.records)


def is_due(schedule):
    interval, offset = map(int, schedule.removeprefix("linear(").rstrip(")").split(", "))
    return lambda step: step >= offset and (step - offset) % interval == 0


def counting(counted):
    def backend(graph_module, inputs):
        counted.append(graph_module)
        return graph_module

    return backend


def test_forty_steps_compile_no_more_for_each_due_set_than_the_plain_model():
    """Two batch sizes, and an evaluation every ten steps."""
    cfg = {nn.Linear: ["InputSndNorm", ["OutputGradSndNorm", "linear(2, 0)"], ["InputMean", "linear(4, 0)"]]}  # fmt: skip
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.0), nn.ReLU(), nn.Linear(8, 2))
    eager, compiled = (taiyi_fx.instrument(copy.deepcopy(model), cfg) for _ in range(2))
    counts = {}
    for subject in (model, compiled):
        graphs = []
        run = torch.compile(subject, fullgraph=True, backend=counting(graphs))
        torch.manual_seed(0)
        for step in range(40):
            run(torch.randn(3 if step % 10 == 9 else 8, 8)).sum().backward()
            if subject is compiled:
                compiled.monitor.track(step)
            if step % 10 == 9:
                subject.eval()
                with torch.no_grad():
                    run(torch.randn(5, 8))
                subject.train()
        counts[subject] = len(graphs)
    torch.manual_seed(0)
    for step in range(40):
        eager(torch.randn(3 if step % 10 == 9 else 8, 8)).sum().backward()
        eager.monitor.track(step)
        if step % 10 == 9:
            torch.randn(5, 8)
    due_sets = 3
    assert counts[compiled] <= due_sets * counts[model]
    assert_same_records(eager.monitor.records, compiled.monitor.records)


class Deep(nn.Module):
    """Parts of one class, more than torch.compile has graphs for one code object."""

    def __init__(self, part):
        super().__init__()
        self.parts = nn.ModuleList([part() for _ in range(9)])

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.act = nn.Linear(8, 8), nn.ReLU(inplace=True)

    def forward(self, x):
        return x + self.act(self.fc(x))


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch.compile's own look
@pytest.mark.parametrize(("part", "how"), [(Layers, "in place"), (Python, "wrapped")])
def test_parts_compiled_one_by_one_give_the_eager_values(part, how):
    cfg = {nn.Linear: ["InputAbsMax", "OutputGradAbsMax"]}
    model = Deep(part)
    eager, compiled = (taiyi_fx.instrument(copy.deepcopy(model), cfg) for _ in range(2))
    for i, inner in enumerate(compiled.parts):
        if how == "in place":
            inner.compile(fullgraph=True, backend="eager")
        else:
            compiled.parts[i] = torch.compile(inner, fullgraph=True, backend="eager")
    xs = [torch.randn(4, 8) for _ in range(2)]
    for a, b in zip(train(eager, eager, xs), train(compiled, compiled, xs), strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-7)
    assert_same_records(eager.monitor.records, compiled.monitor.records)


@pytest.mark.skipif(torch.__version__ < "2.13", reason="2.6 refuses it: docs/explanation/limits.md")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("quantity", ["OutputGradSndNorm", "GradientNoiseScale"])
def test_cells_may_be_written_between_a_forward_and_its_backward(quantity, backend):
    cfg = {nn.Linear: [quantity]}
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    eager, compiled = (taiyi_fx.instrument(copy.deepcopy(model), cfg) for _ in range(2))
    a, b, c = torch.randn(3, 6, 4)
    for each, run in (
        (eager, eager),
        (compiled, torch.compile(compiled, fullgraph=True, backend=backend)),
    ):
        (run(a) - run(b)).square().mean().backward()  # one after the other
        loss = run(c).square().mean()
        each.monitor.track(0)
        loss.backward()
        each.monitor.track(1)
    assert_same_records(eager.monitor.records, compiled.monitor.records)


@pytest.mark.parametrize(
    "quantity", ["OutputGradSndNorm", "OutputGradAbsMax", "GradientNoiseScale"]
)
def test_gradients_are_read_under_compiled_autograd(quantity):
    cfg = {"": ["InputSndNorm", quantity]}
    eager, model = (taiyi_fx.instrument(nn.Linear(4, 4), cfg) for _ in range(2))
    eager.load_state_dict(model.state_dict())
    run = torch.compile(model, backend="aot_eager")

    @torch.compile(backend="aot_eager")
    def backward(x):
        run(x).square().mean().backward()

    for step in range(2):
        xs = torch.randn(2, 3, 4)
        for x in xs:
            eager(x).square().mean().backward()
            with torch._dynamo.config.patch(compiled_autograd=True):
                backward(x)
        eager.monitor.track(step)
        model.monitor.track(step)
    assert_same_records(eager.monitor.records, model.monitor.records)
    assert torch.allclose(model.weight.grad, eager.weight.grad)


MODULES = {
    "linear": (lambda: nn.Linear(4, 4), (4,)),
    "convolution": (lambda: nn.Conv2d(3, 4, 3), (3, 5, 5)),
    "norm": (lambda: nn.BatchNorm2d(3), (3, 5, 5)),
}


@pytest.mark.parametrize(
    "kind",
    ["linear", *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in [*MODULES][1:])],
)
def test_sizes_that_are_left_open_stay_so(kind):
    make, shape = MODULES[kind]
    model = taiyi_fx.instrument(make(), {"": [*quantities_of(make())]})
    counters.clear()
    run = torch.compile(model, fullgraph=True, backend="aot_eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        for step, n in enumerate((6, 9, 12, 15)):
            x = torch.randn(n, *shape, requires_grad=True)
            torch._dynamo.mark_dynamic(x, 0)
            run(x).square().sum().backward()
            model.monitor.track(step)
    assert counters["stats"]["unique_graphs"] == 1


def quantities_of(module):
    for name in quantity_names():
        if not find_quantity(name).compute.__module__.startswith("taiyi_fx."):
            continue  # another test's
        with contextlib.suppress(ValueError):
            taiyi_fx.instrument(module, {"": [name]})
            yield name


@dataclasses.dataclass(frozen=True)
class NotOfEight:
    def measure(self, x):
        if x.shape[-1] == 8:
            raise ValueError("not of eight")
        return (x.sum(),)

    def merge(self, a, b):
        return (a[0] + b[0],)

    def scale(self, state, factor):
        return (state[0] * factor,)

    def finish(self, state):
        return state[0]


class MergesOther(NotOfEight):
    def measure(self, x):
        return (x.sum(0),)

    def merge(self, a, b):
        return (torch.cat([a[0], b[0]]),)


class Decides(NotOfEight):
    def measure(self, x):
        return (x.sum() if x.sum() > 0 else -x.sum(),)


class Masks(NotOfEight):
    def measure(self, x):
        return (x[x > 0].sum(),)


class Reads(NotOfEight):
    def measure(self, x):
        return (x.sum() * x.sum().item(),)


class Empty(NotOfEight):
    def measure(self, x):
        return ()


class Complex(NotOfEight):
    def measure(self, x):
        return (torch.complex(x.sum(), x.abs().sum()),)

    def finish(self, state):
        return state[0].imag


class Sums(NotOfEight):
    def measure(self, x):
        return (x.double().sum(),)


class Sizes(NotOfEight):
    def measure(self, x):
        return (x.double().abs().sum() * 100,)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("place", [taiyi_fx.input, taiyi_fx.output_grad])
@pytest.mark.parametrize("reduction", [NotOfEight, MergesOther])
def test_a_reduction_that_fails_does_not_end_a_compiled_training(reduction, place, backend):
    name = f"{reduction.__name__}_{place.port}_{backend}"
    failing = taiyi_fx.quantity(name, n=place.reduce(reduction))(last)
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(8, 8)), {"0": [failing, "InputSndNorm"]})
    run = torch.compile(model, fullgraph=True, backend=backend)
    for step in range(2):
        x = torch.randn(3, 8)
        run(x).sum().backward()
        with (
            pytest.warns(taiyi_fx.MonitorWarning, match=name)
            if not step
            else contextlib.nullcontext()
        ):
            model.monitor.track(step)
        assert model.monitor.missing["0", name].startswith("ValueError: ")
        output = model.monitor.get_output()["0"]
        assert output["InputSndNorm"][step] == pytest.approx(x.norm().item())
        assert name not in output


def test_a_reduction_that_fails_ends_a_strict_compiled_training():
    failing = taiyi_fx.quantity("strictly_not", n=taiyi_fx.input.reduce(NotOfEight))(last)
    model = taiyi_fx.instrument(nn.Linear(8, 8), {"": [failing]}, strict=True)
    torch.compile(model, fullgraph=True, backend="aot_eager")(torch.randn(3, 8)).sum().backward()
    with pytest.raises(ValueError, match="not of eight"):
        model.monitor.track(0)


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("place", [taiyi_fx.input, taiyi_fx.output_grad])
@pytest.mark.parametrize("reduction", [Decides, Masks, Reads])
def test_a_reduction_that_asks_for_values_is_left_out_and_told(reduction, place, fullgraph):
    name = f"{reduction.__name__}_{place.port}_{fullgraph}"
    asking = taiyi_fx.quantity(name, n=place.reduce(reduction))(last)
    model = taiyi_fx.instrument(nn.Linear(8, 8), {"": [asking, "InputSndNorm"]})
    x = torch.ones(3, 8)
    torch.compile(model, backend="aot_eager", fullgraph=fullgraph)(x).sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match=f"{name} of 'the model'.*values of a tensor"):
        model.monitor.track(0)
    assert model.monitor.get_output()[""]["InputSndNorm"][0] == pytest.approx(x.norm().item())


def test_a_state_without_parts_is_told_in_compiled_code():
    empty = taiyi_fx.quantity("empty_state", n=taiyi_fx.input.reduce(Empty))(last)
    model = taiyi_fx.instrument(nn.Linear(8, 8), {"": [empty]})
    torch.compile(model, backend="aot_eager", fullgraph=True)(torch.ones(3, 8)).sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="no parts"):
        model.monitor.track(0)


@pytest.mark.parametrize("place", [taiyi_fx.input, taiyi_fx.output_grad])
def test_a_complex_state_keeps_both_its_parts_in_compiled_code(place):
    name = f"imaginary_{place.port}"
    quantity = taiyi_fx.quantity(name, n=place.reduce(Complex))(last)
    xs = [torch.randn(3, 4) for _ in range(2)]
    eager, compiled = trained_both_ways(nn.Linear(4, 4), {"": [quantity]}, xs)
    assert_same_records(eager.monitor.records, compiled.monitor.records)
    assert all(record.value for record in compiled.monitor.records)


def test_a_step_of_two_widths_is_told_in_compiled_code_too():
    model = taiyi_fx.instrument(nn.Tanh(), {"": ["InputCovMaxEig"]})
    run = torch.compile(model, backend="aot_eager")
    for step in range(2):
        run(torch.randn(4, 8))
        run(torch.randn(4, 20))
        with (
            pytest.warns(taiyi_fx.MonitorWarning, match="must match")
            if not step
            else contextlib.nullcontext()
        ):
            model.monitor.track(step)
    assert not list(model.monitor.records)


def test_a_backward_may_come_when_its_model_is_gone():
    model = taiyi_fx.instrument(nn.Linear(4, 4), {"": ["InputSndNorm", "OutputGradSndNorm"]})
    x = torch.randn(3, 4, requires_grad=True)
    loss = torch.compile(model, backend="eager", fullgraph=True)(x).sum()
    del model
    torch._dynamo.reset()
    gc.collect()
    loss.backward()
    assert x.grad is not None


@pytest.mark.skipif(torch.__version__ < "2.7", reason="2.6 refuses it: docs/explanation/limits.md")
def test_an_exported_program_holds_no_readings(tmp_path):
    model = taiyi_fx.instrument(
        nn.Sequential(nn.Linear(4, 4)), {"0": ["InputRMS", "OutputGradRMS"]}
    )
    x = torch.randn(3, 4)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2")
    assert not [node for node in program.graph.nodes if "taiyi_fx" in str(node.target)]
    assert torch.equal(program.module()(x), model(x))


class Unpooled(nn.Module):
    """The compiler takes what it returns for contiguous, which it is not here."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 1, 1))
        self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

    def forward(self, x):
        return self.unpool(*self.pool(x * self.weight)).sin()


def test_a_value_may_have_other_strides_than_the_compiler_believes():
    model = taiyi_fx.instrument(Unpooled(), {"unpool": ["OutputNorm", "OutputGradSndNorm"]})
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    for step, run in enumerate((model, torch.compile(model, backend="aot_eager"))):
        run(x).sum().backward()
        model.monitor.track(step)
    for values in model.monitor.get_output()["unpool"].values():
        assert values[1] == pytest.approx(values[0])


def test_a_compiled_transform_is_not_read_as_in_eager_code():
    model = taiyi_fx.instrument(nn.Linear(4, 4), {"": ["InputSndNorm"]})
    x = torch.randn(3, 5, 4)
    run = torch.compile(lambda x: torch.func.vmap(model)(x), backend="aot_eager")
    assert torch.allclose(run(x), model(x))


@pytest.mark.exhaustive
def test_forked_processes_do_not_take_each_others_compiled_code():
    code = """
import multiprocessing, os, sys
import torch, taiyi_fx
from torch import nn
from tests.test_compile import last, Sums, Sizes

quantities = [taiyi_fx.quantity(k.__name__, n=taiyi_fx.input.reduce(k))(last) for k in (Sums, Sizes)]

def child(quantity):
    model = taiyi_fx.instrument(nn.Linear(4, 4), {"": [quantity]})
    torch.compile(model)(torch.ones(2, 4)).sum().backward()
    model.monitor.track(0)
    print(*(record.value for record in model.monitor.records), flush=True)

for quantity in quantities:
    process = multiprocessing.get_context("fork").Process(target=child, args=(quantity,))
    process.start()
    process.join()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["8.0", "800.0"], ran.stderr


def last(n):
    """The number."""
    return n


def assert_trained_alike(model, cfg, shape, backend="aot_eager"):
    """Plain, probed and compiled: the same outputs and gradients, and the same records or a word."""
    plain, eager, compiled = (copy.deepcopy(model) for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        eager, compiled = taiyi_fx.instrument(eager, cfg), taiyi_fx.instrument(compiled, cfg)
    run = torch.compile(compiled, fullgraph=True, backend=backend)
    x = torch.randn(shape)
    results = []
    for each, call in ((plain, plain), (eager, eager), (compiled, run)):
        given = x.clone().requires_grad_()
        made = call(given)
        made = made if isinstance(made, tuple) else (made,)
        weights = [torch.linspace(1, 2, y.numel()).reshape(y.shape) for y in made]
        sum((y * w).sum() for y, w in zip(made, weights, strict=True)).backward()
        gradients = [p.grad for p in each.parameters() if p.grad is not None]
        results.append([*(y.detach() for y in made), given.grad, *gradients])
    for of_plain, of_eager, of_compiled in zip(*results, strict=True):
        assert torch.equal(of_plain, of_eager)
        assert torch.allclose(of_plain, of_compiled, rtol=1e-5, atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        eager.monitor.track(0)
        compiled.monitor.track(0)
    told = compiled.monitor.missing
    expected = [r for r in eager.monitor.records if (r.module, r.quantity) not in told]
    assert_same_records(expected, compiled.monitor.records)
    return compiled.monitor.get_output()


def test_a_tensor_that_is_handed_on_is_read_with_all_its_uses_in_compiled_code_too():
    torch.manual_seed(0)
    cfg = {name: ["InputSndNorm", "OutputGradSndNorm"] for name in ("", "identity", "fc")}
    found = assert_trained_alike(BesideIdentity(), cfg, (3, 4))
    assert found["identity"]["OutputGradSndNorm"] == found["fc"]["OutputGradSndNorm"]


class BesideIdentity(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.identity = nn.Linear(4, 4), nn.Identity()

    def forward(self, x):
        x = self.fc(x)
        return self.identity(x) * 2 + x


class Shares(nn.Module):
    """Returns, changes in place or uses what shares memory with the output of a part."""

    def __init__(self, way):
        super().__init__()
        self.fc, self.flatten, self.act = nn.Linear(4, 4), nn.Flatten(), nn.ReLU(inplace=True)
        self.way = way

    def forward(self, x):
        y = self.fc(x)
        if self.way == "a view beside it":
            return y, y[:, 0]
        if self.way == "two views":
            return y[:, 0], y[:, 1]
        if self.way == "twice":
            return y, y
        if self.way == "a view of it, changed":
            first = y[:, 0]
            first *= 3
            return (y,)
        flat = self.flatten(y)
        if self.way == "a part's view, changed":
            self.act(flat)
            return (y,)
        if self.way == "what a part made a view of, changed":
            y *= 3
            return (flat,)
        return flat, y


SHARED = ["a view beside it", "two views", "twice", "a view of it, changed", "a part's view, changed",
          "what a part made a view of, changed", "a part's view beside it"]  # fmt: skip


class CompilesItsMethod(nn.Module):
    """Compiles a method of its own, in which a part is called twice, and stays Python around it."""

    def __init__(self, backend, *, fullgraph):
        super().__init__()
        self.part, self.act, self.last = nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)
        self.compiled = self.within
        if backend:
            self.compiled = torch.compile(self.within, backend=backend, fullgraph=fullgraph)

    def within(self, x):
        return self.act(self.part(self.act(self.part(x))))

    def forward(self, x):
        x = self.compiled(x)
        if x.sum() > 1e6:
            x = x / 2
        return self.last(self.compiled(x))


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch.compile's own look
@pytest.mark.parametrize("cfg", [{"*": ["OutputRMS", "OutputGradRMS", "WeightGradNorm"]}, None])
@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_model_may_compile_a_method_of_its_own(cfg, fullgraph):
    def trained(backend, *, watched=True):
        torch.manual_seed(0)
        model = CompilesItsMethod(backend, fullgraph=fullgraph)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        monitor = None
        if watched:
            model = taiyi_fx.instrument(model, *([] if cfg is None else [cfg]))
            monitor = model.monitor
        outputs = []
        for step in range(8):
            x = torch.randn(3 + step % 2, 8, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            outputs.append(model(x))
            outputs[-1].square().sum().backward()
            if monitor:
                monitor.track(step)
            optimizer.step()
        records = monitor.records if monitor else ()
        return outputs, {(r.module, r.quantity, r.step): float(r.value) for r in records}

    plain, _ = trained("aot_eager", watched=False)
    torch._dynamo.reset()
    compiled, found = trained("aot_eager")
    _, expected = trained(None)
    assert all(map(torch.equal, compiled, plain))
    assert found == pytest.approx(expected, rel=1e-5, nan_ok=True)


class Compiles(nn.Module):
    """A block that compiles its forward's inside as one graph, as all blocks of its class do."""

    def __init__(self, **options):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        self.compiled = torch.compile(self.within, backend="aot_eager", fullgraph=True, **options)

    def within(self, x):
        return x + self.two(self.one(x).relu())

    def forward(self, x):
        return self.compiled(x)


class Checkpoints(Compiles):
    def within(self, x):
        return self.two(checkpoint(self.one, x, use_reentrant=False))


class Chooses(Compiles):
    def within(self, x):
        return self.two(torch.cond(x.sum() > 0, self.one, self.two, (x,)))


class CompilesLate(Compiles):
    """Compiles a part, with numbers as variables, when it is called first."""

    later = None

    def forward(self, x):
        if self.later is None:
            self.later = [torch.compile(self.one, backend="aot_eager", dynamic=True)]
        return self.two(self.later[0](x))


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch.compile's own look
@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")  # of what cannot be read
@pytest.mark.parametrize(
    ("kind", "blocks"),
    [
        (Compiles, 9),
        (Checkpoints, 2),
        pytest.param(
            Chooses,
            2,
            marks=pytest.mark.skipif(
                torch.__version__ < (2, 7), reason="torch 2.6 cannot differentiate it as it is"
            ),
        ),
        (CompilesLate, 2),
    ],
)
def test_blocks_may_compile_what_is_within_them(kind, blocks):
    def trained(*, watched):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = nn.Sequential(*(kind() for _ in range(blocks)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        called = taiyi_fx.instrument(model) if watched else model
        outputs = []
        for step in range(4):
            called.train(step != 2)
            outputs.append(called(torch.ones(3 + step % 2, 8)))
            outputs[-1].square().sum().backward()
            if watched:
                called.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()
        assert not watched or len(called.monitor.records)
        return outputs

    config = torch._dynamo.config
    limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # 2.6
    before = getattr(config, limit)
    try:
        assert all(map(torch.equal, trained(watched=True), trained(watched=False)))
    finally:
        setattr(config, limit, before)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("way", SHARED)
def test_memory_that_outputs_share_is_shared_when_compiled(way, backend):
    torch.manual_seed(0)
    cfg = {"fc": ["OutputGradSndNorm", "InputSndNorm"]}
    found = assert_trained_alike(Shares(way), cfg, (2, 3, 4), backend)
    assert found["fc"]["OutputGradSndNorm"]


@pytest.mark.parametrize("way", SHARED)
def test_an_edit_stays_where_memory_is_shared_when_compiled(way):
    torch.manual_seed(0)
    doubled = taiyi_fx.instrument(Shares(way), {"fc": [taiyi_fx.edit(grad=lambda g: 2 * g)]})
    compiled = copy.deepcopy(doubled)
    x = torch.randn(2, 3, 4)
    for run in (doubled, torch.compile(compiled, fullgraph=True, backend="aot_eager")):
        sum(y.sum() for y in run(x)).backward()
    assert torch.allclose(doubled.fc.weight.grad, compiled.fc.weight.grad)


@pytest.mark.parametrize("way", SHARED)
def test_the_gradients_stay_where_a_parts_view_is_watched_and_changed(way):
    torch.manual_seed(0)
    model = Shares(way)
    if "part" not in way:
        model.fc = nn.Sequential(model.fc, model.flatten, nn.Unflatten(1, (3, 4)))
    assert_trained_alike(model, {nn.Flatten: ["OutputGradSndNorm"]}, (2, 3, 4))


@taiyi_fx.quantity("norm_of_input_gradient_in_test", norm=taiyi_fx.input_grad.norm)
def norm_of_input_gradient(norm):
    return norm


class ChangesInput(nn.Module):
    """Its part changes in place what it is given; what that returns is not used."""

    class Part(nn.Module):
        def forward(self, x, way):
            return x[:, 0].mul_(3) if way == "a view" else x.relu_()

    def __init__(self, way):
        super().__init__()
        self.fc, self.part, self.way = nn.Linear(4, 4), self.Part(), way

    def forward(self, x):
        y = self.fc(x)
        result = self.part(y, self.way)
        return (result if self.way == "what is returned" else y,)


@pytest.mark.parametrize("way", ["a view", "all of it", "what is returned"])
def test_a_part_that_changes_its_input_still_trains_alike(way):
    """The gradient of such an input is not read, and that is said."""
    torch.manual_seed(0)
    cfg = {"part": [norm_of_input_gradient], "fc": [norm_of_input_gradient]}
    found = assert_trained_alike(ChangesInput(way), cfg, (2, 4))
    assert set(found) == {"fc"}


def test_a_gradient_may_lie_otherwise_than_the_compiler_believes():
    """It takes what dropout hands back for contiguous, which it is not here."""
    xs = [torch.randn(3, 4, 5, requires_grad=True) for _ in range(2)]
    eager, compiled = trained_both_ways(Permuted(), CFG, xs, rtol=1e-5, atol=1e-7)
    assert_same_records(eager.monitor.records, compiled.monitor.records)


class Permuted(nn.Module):
    def __init__(self):
        super().__init__()
        self.tanh, self.dropout, self.last = nn.Tanh(), nn.Dropout(1e-9), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.dropout(self.tanh(x)).permute(0, 2, 1))


class Dropped(nn.Module):
    """Uses what it gives to a dropout elsewhere, too."""

    def __init__(self):
        super().__init__()
        self.first, self.dropout, self.last = nn.Linear(4, 4), nn.Dropout(0.0), nn.Linear(4, 4)
        self.again, self.same = nn.Dropout(0.0), nn.Identity()

    def forward(self, x):
        y = self.first(x)
        z = self.same(self.again(self.dropout(y)))
        return self.last(z) + y + self.dropout(z.clone())  # its input is another tensor


@pytest.mark.parametrize(("rate", "drops"), [(0.0, True), (0.5, True), (0.5, False)])
def test_a_dropout_of_zero_hands_its_very_input_on(rate, drops):
    """The compiler makes a copy of it, which has later uses only."""
    model = Dropped()
    model.dropout.p = rate
    cfg = {name: ["OutputGradNorm"] for name in ("first", "dropout", "again", "same")}
    found = []
    for is_compiled in (False, True):
        subject = taiyi_fx.instrument(copy.deepcopy(model), cfg)
        subject.dropout.train(drops)
        if is_compiled:
            subject.compile(fullgraph=True, backend="aot_eager")
        torch.manual_seed(0)
        subject(torch.ones(3, 4)).square().sum().backward()
        subject.monitor.track(0)
        found.append({r.module: r.value for r in subject.monitor.records})
    assert found[1] == pytest.approx(found[0], rel=1e-6)
    is_handed_on = found[0]["dropout"] == pytest.approx(found[0]["first"])
    assert is_handed_on is (rate == 0.0 or not drops)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("quantity", ["ForwardInput", "InputCovCondition"])
def test_a_copy_that_is_read_is_no_copy_that_the_model_returns(quantity, backend):
    """Inductor removes both, and of one output for both torch would keep no gradient."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.0))
    watched = taiyi_fx.instrument(copy.deepcopy(model), {"1": [quantity]})
    x = torch.randn(3, 8)
    compiled, plain = torch.compile(watched, backend=backend), torch.compile(model, backend=backend)
    for step in range(2):
        plain(x).square().sum().backward()
        compiled(x).square().sum().backward()
        watched.monitor.track(step)
    assert torch.equal(watched[0].weight.grad, model[0].weight.grad)
    assert [r.step for r in watched.monitor.records] == [0, 1]


class Gated(nn.Module):
    """Has, by its setting, no layer of the name that its forward spells."""

    def __init__(self):
        super().__init__()
        self.fc, self.has_norm = nn.Linear(8, 8), False

    def forward(self, x):
        return self.norm(self.fc(x)) if self.has_norm else self.scaled(self.fc(x))

    def scaled(self, x):
        return 2 * x


class Remembering(nn.Module):
    """Stays Python, and changes a dictionary before it calls its part."""

    def __init__(self):
        super().__init__()
        self.part, self.seen = Gated(), {"calls": 0}

    def forward(self, x):
        self.seen["width"] = x.shape[1]
        return self.part(x)


def test_a_class_is_asked_for_its_names_behind_a_changed_dictionary():
    torch.manual_seed(0)
    model = taiyi_fx.instrument(
        Remembering(), {"Linear": ["OutputGradSndNorm"], "Gated": ["InputSndNorm"]}
    )
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for step in range(2):
        compiled(torch.ones(4, 8)).sum().backward()
        model.monitor.track(step)
    assert len(model.monitor.records) == 4
    assert not model.monitor.missing


def test_a_method_that_is_replaced_in_the_class_is_compiled_anew(monkeypatch):
    model = taiyi_fx.instrument(Remembering(), {"Linear": ["OutputGradSndNorm"]})
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    x = torch.ones(4, 8)
    before = compiled(x)
    monkeypatch.setattr(Gated, "scaled", lambda self, x: 3 * x)
    assert compiled(x).allclose(1.5 * before)
    monkeypatch.setattr(Gated, "scaled", lambda self, x: 4 * x)
    assert model(x).allclose(2 * before)


class Opaque(Remembering):
    """Is named to the compiler as one operation where others call it, as models of diffusers are."""


@pytest.mark.skipif(
    torch.__version__ < (2, 7),
    reason="the compiler of torch 2.6 looks into no class that is allowed",
)
def test_a_model_whose_class_is_allowed_in_graphs_compiles():
    torch.compiler.allow_in_graph(Opaque)
    torch.manual_seed(0)
    model = taiyi_fx.instrument(Opaque(), {"Linear": ["OutputGradSndNorm"]})
    torch.compile(model, backend="aot_eager", fullgraph=True)(torch.ones(4, 8)).sum().backward()
    model.monitor.track(0)
    assert [r.module for r in model.monitor.records] == ["part.fc"]


def test_parts_that_are_others_all_at_once_are_compiled_anew():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    compiled = torch.compile(taiyi_fx.instrument(model, {"0": ["OutputRMS"]}), backend="eager")
    x = torch.randn(3, 4)
    assert torch.equal(compiled(x), model(x))
    model._modules = dict(zip("012", (model[2], nn.ReLU(), model[0]), strict=True))
    assert torch.equal(compiled(x), model(x))


class Chosen(nn.Module):
    """Has a part that may be missing."""

    def __init__(self, last):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), last
        self.register_module("none", None)

    def forward(self, x):
        return self.last(self.first(x))


def test_a_part_that_is_replaced_is_compiled_anew():
    """By a module of the same class, too, of which each other guard of the compiler holds."""
    model = taiyi_fx.instrument(Chosen(nn.LeakyReLU(0.5)), {"first": ["OutputGradSndNorm"]})
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    x = torch.randn(3, 4)
    for other in (nn.LeakyReLU(0.25), nn.LeakyReLU(0.5), nn.Tanh()):
        compiled(x)
        model.last = other
        assert compiled(x).equal(other(model.first(x)))


def test_sizes_that_the_compiler_leaves_open_may_be_those_of_a_statistic():
    model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4))
    cfg = {"0": ["InputCovMaxEig", "OutputGradCovMaxEig"]}
    xs = [torch.randn(n, 4) for n in (6, 9)]
    eager, compiled = trained_both_ways(model, cfg, xs, "eager", dynamic=True)
    assert_same_records(eager.monitor.records, compiled.monitor.records)


def test_compiled_and_eager_calls_of_one_model_are_joined():
    cfg = {nn.Linear: ["InputSndNorm", "InputCovMaxEig", "OutputGradCovMaxEig"]}
    model = nn.Sequential(nn.Linear(8, 4), nn.Tanh())
    eager, mixed = (taiyi_fx.instrument(copy.deepcopy(model), cfg) for _ in range(2))
    run = torch.compile(mixed, fullgraph=True, backend="aot_eager")
    ways = [(run, mixed), (mixed,), (run,), (mixed, run), (mixed, mixed)]
    for step, calls in enumerate(ways):
        for call in calls:
            x = torch.randn(3, 8)
            for forward in (eager, call):
                forward(x).square().sum().backward()
        eager.monitor.track(step)
        mixed.monitor.track(step)
    assert_same_records(eager.monitor.records, mixed.monitor.records)


def test_compiled_code_writes_into_nothing_and_is_given_one_tensor_more():
    """Else torch.compile(mode="reduce-overhead") would give up CUDA graphs, or copy much."""
    made = []

    def backend(graph_module, inputs):
        made.append((graph_module, len(inputs)))
        return make_boxed_func(graph_module.forward)

    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    probed = taiyi_fx.instrument(
        copy.deepcopy(model), {nn.Linear: ["InputSndNorm", "InputAbsMax", "OutputGradSndNorm"]}
    )

    def as_it_is(graph_module, inputs):
        return make_boxed_func(graph_module.forward)

    for each in (model, probed):
        run = torch.compile(
            each, backend=aot_autograd(fw_compiler=backend, bw_compiler=as_it_is), fullgraph=True
        )
        run(torch.ones(2, 4)).sum().backward()
    (_, of_plain), (graph, of_probed) = made
    assert of_probed == of_plain + 1
    names = {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
    assert not [name for name in names if "copy_" in name or "taiyi" in name]


def test_compiled_code_does_not_return_what_follows_from_shapes():
    returned = []

    def backend(graph_module, inputs):
        (output,) = graph_module.graph.find_nodes(op="output")
        returned.append([x.meta["val"] for x in output.args[0] if isinstance(x, torch.fx.Node)])
        return make_boxed_func(graph_module.forward)

    cfg = {nn.Linear: ["InputRMS", "OutputGradRMS"]}  # a norm and a number of elements each
    plain = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3))
    eager, model = (taiyi_fx.instrument(copy.deepcopy(plain), cfg) for _ in range(2))
    run = torch.compile(model, backend=aot_autograd(fw_compiler=backend), fullgraph=True)
    x = torch.randn(5, 4)
    for step in range(3):
        for module, forward in ((eager, eager), (model, run)):
            forward(x).square().sum().backward()
            module.monitor.track(step)
    assert_same_records(eager.monitor.records, model.monitor.records)
    of_forward, *_ = returned
    assert [v.shape for v in of_forward if v.dtype is torch.float64 and v.ndim] == [(2,)]


class ChangesLater(nn.Module):
    """Changes in place what was read: an activation, and a gradient by a hook."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        h = self.a(x).relu_()
        y = self.b(h)
        if y.requires_grad:
            h.register_hook(changed_if_it_compiles)
        return self.c(y.mul_(2))


def changed_if_it_compiles(g):
    """Three times a gradient, in place but for torch 2.15, which does not compile such a hook."""
    return g.mul_(3) if torch.__version__ < (2, 15) else g * 3


@pytest.mark.skipif(torch.__version__ < (2, 7), reason="torch 2.6 compiles no hook in a forward")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_what_is_changed_in_place_later_is_read_as_it_was(backend):
    cfg = {nn.Linear: ["InputRMS", "OutputRMS", "OutputGradRMS", "OutputGradNorm"]}
    xs = [torch.randn(5, 4) for _ in range(3)]
    eager, compiled = trained_both_ways(ChangesLater(), cfg, xs, backend)
    assert_same_records(eager.monitor.records, compiled.monitor.records)


class Rounding(nn.Module):
    """Its sum is in a kernel's registers, in float32; in memory it would be rounded."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8, dtype=torch.bfloat16)

    def forward(self, x):
        return self.norm(x.sin() + x.cos() * x)


class Fusing(nn.Module):
    """The gradient behind its norm is nowhere in memory, if nothing asks for it there."""

    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.b, self.c = nn.Conv2d(8, 4, 3), nn.Linear(4, 3)

    def forward(self, x):
        h = self.b(F.relu(self.norm(self.a(x)), inplace=True))
        return self.c(F.max_pool2d(h, 2).mean((2, 3)))


@pytest.mark.parametrize("schedule", ["every(1)", "every(2)"])
@pytest.mark.parametrize(("kind", "quantity"), [(Rounding, "InputRMS"), (Fusing, "OutputGradRMS")])
def test_a_reading_has_nothing_written_to_memory_that_would_change_bits(kind, quantity, schedule):
    plain = kind()
    x = torch.randn(60, 8, dtype=torch.bfloat16)
    if kind is Fusing:
        x = torch.randn(8, 3, 40, 40).contiguous(memory_format=torch.channels_last)
    cfg = {"norm": [[quantity, schedule]]}
    read = taiyi_fx.instrument(copy.deepcopy(plain), cfg)
    found = []
    for model in (plain, read):
        y = torch.compile(model, fullgraph=True)(x)
        y.float().square().mean().backward()
        found.append([y, *(p.grad for p in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def keep_products():
    return create_selective_checkpoint_contexts([torch.ops.aten.mm.default])


class Checkpointed(nn.Module):
    """All but its last layer in a checkpoint, of which nothing else comes out."""

    def __init__(self, is_selective):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.context = {"context_fn": keep_products} if is_selective else {}

    def body(self, x):
        return self.b(self.a(x).tanh())

    def forward(self, x):
        return checkpoint(self.body, x, use_reentrant=False, **self.context)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch.compile's own look
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("is_selective", [False, True])
def test_a_checkpoint_counts_once_in_compiled_code_too(backend, is_selective):
    cfg = {nn.Linear: ["InputAbsMax", "InputSndNorm", "OutputGradSndNorm", "InputCovMaxEig"]}
    xs = [torch.randn(3, 4) for _ in range(2)]
    model = Checkpointed(is_selective)
    eager, compiled = trained_both_ways(model, cfg, xs, backend, rtol=1e-5, atol=1e-7)
    assert_same_records(eager.monitor.records, compiled.monitor.records)


@pytest.mark.parametrize(
    "quantity",
    [
        "GradientNoiseScale",
        pytest.param("InputSndNorm", marks=pytest.mark.exhaustive),
        pytest.param("OutputGradSndNorm", marks=pytest.mark.exhaustive),
    ],
)
def test_nothing_that_the_compiler_traced_with_is_kept(quantity):
    model = taiyi_fx.instrument(nn.Linear(4, 4), {"": [quantity]})
    before = traced_with()
    torch.compile(model, backend="aot_eager", fullgraph=True)(torch.randn(3, 4)).sum().backward()
    model.monitor.track(0)
    assert traced_with() <= before


def traced_with():
    """How many tensors there are that AOTAutograd traces with."""
    gc.collect()
    return sum(type(x) is FunctionalTensor for x in gc.get_objects())


class Residual(nn.Module):
    """Hooks keep it Python; nothing is asked of it, only of its parts."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)
        for part in (self.up, self.down):
            part.register_forward_pre_hook(lambda *_: None)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Broken(nn.Module):
    """Each block is compiled by itself."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Residual(), Residual()])

    def forward(self, x):
        for block in self.blocks:
            torch._dynamo.graph_break()
            x = block(x)
        return x


# torch asks a tensor that enters a block for its gradient.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize("asked", [["InputSndNorm", "OutputGradSndNorm"], ["OutputGradSndNorm"]])
def test_several_parts_that_end_in_one_graph_are_all_read(asked):
    def trained(way):
        torch.manual_seed(0)
        torch.compiler.reset()
        # Of what comes last only the value is asked for: it leaves no ticket of its own.
        model = taiyi_fx.instrument(Broken(), {"*.up": asked, "*.down": ["InputSndNorm"]})
        called = torch.compile(model, backend="aot_eager") if way == "compiled" else model
        for step in range(2):
            called(torch.randn(3, 4)).square().sum().backward()
            model.monitor.track(step)
        return {(r.module, r.quantity, r.step): r.value for r in model.monitor.records}

    eager, compiled = trained("eager"), trained("compiled")
    assert list(compiled) == list(eager)
    assert len(eager) == 4 * (1 + len(asked))
    for series, value in eager.items():
        assert compiled[series] == pytest.approx(value, rel=1e-6), series


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.by = nn.Linear(4, 4), 1.0

    def forward(self, x):
        return self.fc(x) * self.by


def test_a_number_of_the_model_may_change_between_steps():
    torch.manual_seed(0)
    plain, model = Scaled(), Scaled()
    model.load_state_dict(plain.state_dict())
    watched = taiyi_fx.instrument(model, {"": ["OutputRMS"]})
    compiled = torch.compile(watched, backend="eager")
    for step, by in enumerate([1.0, 1.0, 1000.0, 2.0, 0.0, -0.0, 2.0]):
        plain.by = model.by = by
        x = torch.randn(8, 4)
        expected, found = plain(x), compiled(x)
        assert torch.equal(found, expected)
        assert torch.equal(found.signbit(), expected.signbit())
        found.sum().backward()
        watched.monitor.track(step)
        read = watched.monitor.get_output()[""]["OutputRMS"][step]
        assert float(read) == pytest.approx(expected.square().mean().sqrt().item(), rel=1e-5)


class RefusesTwo(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        x = self.first(x)
        if x.shape[0] == 2:
            raise ValueError("two")
        return self.last(x)


@pytest.mark.filterwarnings("error:Dynamo does not know")
def test_a_forward_that_fails_and_runs_without_the_compiler_brings_no_warning():
    probed = taiyi_fx.instrument(RefusesTwo(), {nn.Linear: [["OutputRMS", "linear(2, 0)"]]})
    compiled = torch.compile(probed, backend="aot_eager")
    for step, size in enumerate((3, 2, 3, 2)):
        if size == 2:
            with pytest.raises(ValueError, match="two"):
                compiled(torch.randn(size, 4))
        else:
            compiled(torch.randn(size, 4)).sum().backward()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
            probed.monitor.track(step)


def twice(model, run, x, way):
    """The gradients of a penalty on a gradient, or the error where that cannot be had."""
    x = x.clone().requires_grad_()
    loss = run(x).square().sum()
    if way == "grad":
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        first = [g]
    else:
        loss.backward(create_graph=True)
        first = [x.grad, *(p.grad for p in model.parameters())]
    came = [g.detach().clone() for g in first]
    try:
        second = torch.autograd.grad(sum(g.square().sum() for g in first), [*model.parameters()])
    except RuntimeError as error:
        return came, str(error)
    finally:
        x.grad = None  # which leads to itself
        model.zero_grad()
    return came, second


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph=True")
@pytest.mark.parametrize("way", ["grad", "backward"])
@pytest.mark.parametrize(
    "backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]
)
def test_a_gradient_through_a_gradient_goes_as_far_as_in_the_compiled_plain_model(backend, way):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    cfg = {nn.Linear: ["InputSndNorm", "OutputGradSndNorm", "OutputGradAbsMax"]}
    eager, compiled = (taiyi_fx.instrument(copy.deepcopy(model), cfg) for _ in range(2))
    run, of_plain = (torch.compile(m, fullgraph=True, backend=backend) for m in (compiled, model))
    goes_twice = backend == "eager"
    for step, x in enumerate(torch.randn(2, 3, 4)):
        first, second = twice(model, of_plain, x, way)
        found, then = twice(compiled, run, x, way)
        assert all(map(torch.equal, found, first))
        if goes_twice:
            assert all(map(torch.equal, then, second))
        else:
            assert then == second
            assert "double backward" in then
        twice(eager, eager, x, way)
        eager.monitor.track(step)
        # No gradient is read of a compiled backward that goes to given tensors alone.
        is_told = way == "grad" and not goes_twice and not step
        with pytest.warns(taiyi_fx.MonitorWarning) if is_told else contextlib.nullcontext():
            compiled.monitor.track(step)
    if goes_twice:
        assert_same_records(eager.monitor.records, compiled.monitor.records)


def guards_of(layers, asked):
    """The number of guards of compiled layers."""
    torch.compiler.reset()
    counted = []

    def count(entries):
        counted.append(len(entries))
        return [True] * len(entries)

    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers)))
    if asked:
        model = taiyi_fx.instrument(model, {nn.Linear: asked})
    run = torch.compile(model, backend="eager", fullgraph=True, options={"guard_filter_fn": count})
    run(torch.ones(2, 4))
    return sum(counted)


@pytest.mark.skipif(torch.__version__ < "2.7", reason="2.6 filters no guards")
def test_probes_add_no_guards():
    """Of those of the layers, torch's own of their hooks are not needed: the graph has none."""
    asked = ["InputSndNorm", "OutputAbsMax", "OutputGradSndNorm"]
    # From eight layers on, of which the readings are more than one call: that is a guard, once.
    many, few = (guards_of(layers, asked) for layers in (24, 8))
    assert many - few == guards_of(24, asked[:1]) - guards_of(8, asked[:1])
    assert many - few < guards_of(24, ()) - guards_of(8, ())


class Stacked(nn.Module):
    """Blocks of one class behind a layer of their own."""

    def __init__(self, blocks, block=Layers):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.blocks = nn.ModuleList([block() for _ in range(blocks)])

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x


def graphs_of_blocks(blocks, cfg, how="in place"):
    """The number of graphs that blocks, each compiled by itself, make in two steps."""
    torch.compiler.reset()
    counted = []
    backend = counting(counted)
    model = taiyi_fx.instrument(Stacked(blocks), cfg) if cfg else Stacked(blocks)
    for i, block in enumerate(model.blocks):
        if how == "in place":
            block.compile(fullgraph=True, backend=backend)
        else:
            model.blocks[i] = torch.compile(block, fullgraph=True, backend=backend)
    for step in range(2):
        model(torch.ones(2, 8)).sum().backward()
        if cfg:
            model.monitor.track(step)
    return len(counted)


# torch asks a tensor that enters a block for its gradient.
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize("how", ["in place", "wrapped"])
@some_or_all("blocks", 4, 12)
def test_blocks_compiled_one_by_one_share_a_graph_where_nothing_in_them_is_read(blocks, how):
    cfg = {"first": ["InputSndNorm", "OutputGradSndNorm"]}
    sometimes = {"blocks.*.fc": [["InputSndNorm", "linear(2, 3)"]], **cfg}
    assert graphs_of_blocks(blocks, None, how) == 1
    assert graphs_of_blocks(blocks, cfg, how) == 1
    assert graphs_of_blocks(blocks, sometimes, how) == 1  # nothing in them is due in two steps
    cfg["blocks.1.fc"] = ["InputSndNorm"]
    assert graphs_of_blocks(blocks, cfg, how) == 2


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@some_or_all("blocks", 4, 12)
def test_blocks_compiled_one_by_one_have_a_graph_each_where_all_are_read(blocks):
    """And no more than that: docs/explanation/limits.md tells of it."""
    assert graphs_of_blocks(blocks, {"blocks.*.fc": ["InputSndNorm"]}) == blocks


class Region(Layers):
    def forward(self, x):
        return super().forward(x)


@pytest.mark.skipif(torch.__version__ < "2.8", reason="torch has no regions before")
@some_or_all("blocks", 4, 12)
def test_a_region_is_compiled_once_for_all_blocks(blocks, monkeypatch):
    """Torch refuses more than eight codes of one region; what is in it is read without compiling."""
    monkeypatch.setattr(Region, "forward", torch.compiler.nested_compile_region(Region.forward))
    read = {"first", "blocks.1"}

    def bodies(cfg):
        torch.compiler.reset()
        graphs = []
        model = Stacked(blocks, Region)
        if cfg:
            model = taiyi_fx.instrument(model, cfg)
        torch.compile(model, fullgraph=True, backend=counting(graphs))(torch.ones(2, 8))
        if cfg:
            is_told = read != set(cfg)
            with (
                pytest.warns(taiyi_fx.MonitorWarning, match="a region that torch compiles once")
                if is_told
                else contextlib.nullcontext()
            ):
                model.monitor.track(0)
            assert {r.module for r in model.monitor.records} == read
            model(torch.ones(2, 8))
            model.monitor.track(1)
            assert {r.module for r in model.monitor.records if r.step} == set(cfg)
        (graph,) = graphs
        return len([*graph.named_children()])

    around = {name: ["InputSndNorm", "OutputAbsMax"] for name in read}
    within = {f"blocks.{i}.fc": ["InputSndNorm"] for i in range(blocks)}
    assert bodies(None) == bodies(around) == bodies(within | around) == 1
