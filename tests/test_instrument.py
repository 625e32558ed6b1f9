"""The instrumented model as an object: what it is, answers and becomes when copied."""

import copy
import io
import pickle
import sys
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import fx, nn

import taiyi_fx
from tests.hard_models import cases

BY_NAME = {case.name: case for case in cases()}


class Named(nn.Module):
    """Attributes of its own under the names that an instrumented model has too."""

    def __init__(self):
        super().__init__()
        self.fc, self.monitor, self.graph = nn.Linear(3, 3), "mine", "mine as well"
        self.factor = 2.0

    def forward(self, x, scale=1.0):
        assert (self.monitor, self.graph) == ("mine", "mine as well")
        if scale is None:  # keeps this forward Python
            scale = 1.0
        return self.fc(x) * scale * self.factor

    def describe(self):
        return f"factor {self.factor}"


CFG = {"fc": ["InputSndNorm", "OutputGradSndNorm"]}


def test_it_is_a_graph_module_and_of_the_models_class_and_answers_as_the_model():
    model = taiyi_fx.instrument(Named(), CFG)
    assert isinstance(model, fx.GraphModule)
    assert isinstance(model, Named)
    assert type(model).__name__ == "Named"
    assert model.describe() == "factor 2.0"
    assert isinstance(taiyi_fx.monitor_of(model), taiyi_fx.Monitor)
    assert isinstance(taiyi_fx.graph_of(model), fx.Graph)
    assert "python_forward" in model.code
    taiyi_fx.graph_of(model).lint()
    x = torch.ones(1, 3)
    assert torch.equal(model(x, scale=3.0), 3 * model(x))


def test_attributes_set_later_take_effect():
    model = taiyi_fx.instrument(Named(), CFG)
    x = torch.randn(2, 3)
    before = model(x)
    model.factor = 4.0
    assert torch.equal(model(x), 2 * before)
    assert step(model, x)["InputSndNorm"] > 0


class Slotted(Named):
    __slots__ = ("__count", "scale")

    def __init__(self):
        super().__init__()
        self.scale = self.__count = 1

    def forward(self, x):
        self.scale += 1
        self.__count += 1
        return super().forward(x)

    def count(self):
        return self.__count


def test_what_a_model_keeps_in_slots_is_kept_once():
    model = Slotted()
    probed = taiyi_fx.instrument(model, CFG)
    step(probed, torch.randn(2, 3))
    assert (probed.scale, probed.count()) == (model.scale, model.count()) == (2, 2)
    probed.scale = 9
    assert model.scale == 9
    del probed.scale
    assert not hasattr(model, "scale")


def weight_read(cfg, kind):
    """The random state, and the calls of the model's code, after steps with and without reading."""
    torch.manual_seed(0)
    model = BY_NAME[f"hard/{kind}"].build()
    torch.manual_seed(0)
    probed = taiyi_fx.instrument(model, cfg) if cfg != "plain" else model
    for number in range(3):
        probed(torch.ones(2, 4)).sum().backward()
        if cfg != "plain":
            probed.monitor.track(number)
    draws = sum(getattr(module, "draws", 0) for module in model.modules())
    return torch.get_rng_state().tolist(), draws


@pytest.mark.parametrize("cfg", [None, {"*": ["WeightNorm", "UpdateRatio", "WeightGradNorm"]}])
@pytest.mark.parametrize(
    "kind", ["a parametrization that draws random numbers", "a property that draws random numbers"]
)
@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_weight_that_the_models_code_computes_is_not_computed_to_be_read(kind, cfg):
    assert weight_read(cfg, kind) == weight_read("plain", kind)


def test_a_weight_that_the_models_code_computes_says_what_to_ask_for():
    model = BY_NAME["hard/a parametrization that draws random numbers"].build()
    with pytest.raises(taiyi_fx.ConfigError, match=r"Shaken computes.*parametrizations\.weight"):
        taiyi_fx.instrument(model, {"first": ["WeightNorm"]})
    key = "first.parametrizations.weight"
    cfg = {key: [["WeightNorm", "every(1)", {"param": "original"}]]}
    probed = taiyi_fx.instrument(model, cfg)
    probed(torch.ones(2, 4)).sum().backward()
    probed.monitor.track(0)
    assert probed.monitor.get_output()[key]["WeightNorm"][0] > 0


def traced(factor=2.0):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.factor = nn.Linear(3, 3), factor

        def forward(self, x):
            return self.fc(x) * self.factor

    return Scaled()


def step(model, x, at=0):
    model(x).sum().backward()
    monitor = taiyi_fx.monitor_of(model)
    monitor.track(at)
    return {q: v[at] for q, v in monitor.get_output()["fc"].items()}


def test_what_a_trace_relied_on_may_change():
    model = taiyi_fx.instrument(traced(), CFG)
    assert str(model.capture) == "one graph"
    assert "fc = self.fc(enter)" in model.code
    assert "marks_leave(fc, 'fc', 0)" in model.code
    x = torch.randn(2, 3)
    before, first = model(x), step(model, x)
    model.factor = 4.0
    assert torch.equal(model(x), 2 * before)
    second = step(model, x, 1)
    assert second["OutputGradSndNorm"] == pytest.approx(2 * first["OutputGradSndNorm"])


@pytest.mark.parametrize("value", [torch.tensor(4.0, requires_grad=True), 4, np.float64(4.0)])
def test_an_attribute_of_another_type_is_followed(value):
    model = taiyi_fx.instrument(traced(4.0), CFG)
    model.factor = value
    x = torch.randn(2, 3)
    assert torch.equal(model(x), model.fc(x) * value)
    if torch.is_tensor(value):
        model(x).sum().backward()
        assert value.grad is not None


def test_parts_exchanged_in_a_list_take_effect():
    class Listed(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Linear(3, 3)])

        def forward(self, x):
            for part in self.parts:
                x = part(x)
            return x

    model = taiyi_fx.instrument(Listed(), {"parts.0": ["InputSndNorm"]})
    assert str(model.capture) == "one graph"
    model.parts.append(nn.ReLU())
    assert (model(torch.randn(5, 3)) >= 0).all()


def test_a_forward_patched_later_stays():
    model = taiyi_fx.instrument(traced(), CFG)
    model.fc.forward = lambda x: x * 7
    x = torch.ones(2, 3)
    assert torch.equal(model(x), x * 14)
    with pytest.warns(taiyi_fx.MonitorWarning):
        model.monitor.track(0)
    assert torch.equal(model(x), x * 14)


@pytest.mark.parametrize("schedule", ["linear(2, 0)", "linear(2, 1)"])
def test_a_forward_put_around_the_models_stays_whatever_is_due(schedule):
    """As trainers put one under autocast there."""
    model = taiyi_fx.instrument(traced(), {"fc": [["InputSndNorm", schedule]]})
    inner, x = model.forward, torch.ones(2, 3)
    model.forward = lambda x: inner(2 * x) + 1
    for step in range(4):
        y = model(x)
        assert torch.equal(y, 2 * nn.functional.linear(2 * x, model.fc.weight, model.fc.bias) + 1)
        y.sum().backward()
        model.monitor.track(step)
    due = [step for step in range(4) if step % 2 == int(schedule[-2])]
    norm = pytest.approx((2 * x).norm().item())
    assert model.monitor.get_output() == {"fc": {"InputSndNorm": dict.fromkeys(due, norm)}}


def test_the_models_own_forward_runs_again_once_nothing_is_due():
    callers = []

    class Callers(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.tanh:
                callers.append({frame.f_code for frame, _ in traceback.walk_stack(sys._getframe())})
            return func(*args, **(kwargs or {}))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(torch.tanh(x))

    instrumented = taiyi_fx.instrument(Model(), {"fc": [["InputSndNorm", "linear(2, 0)"]]})
    for step in range(2):
        with Callers():
            instrumented(torch.ones(1, 2)).sum().backward()
        instrumented.monitor.track(step)
    assert [Model.forward.__code__ in codes for codes in callers] == [False, True]


def test_global_hooks_run():
    model, calls = taiyi_fx.instrument(traced(), CFG), []
    handle = nn.modules.module.register_module_full_backward_hook(lambda *args: calls.append(1))
    try:
        model(torch.randn(2, 3, requires_grad=True)).sum().backward()
    finally:
        handle.remove()
    assert calls


def test_attention_still_sees_that_its_inputs_are_one():
    class SelfAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x)[0]

    net = SelfAttention()
    model = taiyi_fx.instrument(net, {"attention": ["BackwardInput"]})
    x = torch.randn(2, 3, 4, requires_grad=True)
    assert torch.equal(model(x), net(x))


def test_a_model_with_an_instrumented_part_is_refused():
    part = taiyi_fx.instrument(traced(), CFG)
    with pytest.raises(TypeError, match="the part '0' of the model is instrumented already"):
        taiyi_fx.instrument(nn.Sequential(part), {"0.fc": ["InputMean"]})


def test_the_models_class_takes_no_note_of_the_instrumented_one():
    class Registered(nn.Module):
        known = []

        def __init_subclass__(cls, *, name):
            Registered.known.append(name)

        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(x)

    class Mine(Registered, name="mine"):
        pass

    assert isinstance(taiyi_fx.instrument(Mine(), CFG), Mine)
    assert Registered.known == ["mine"]


def test_hooks_registered_later_run():
    model = taiyi_fx.instrument(traced(), CFG)
    model.fc.register_forward_hook(lambda module, args, output: output + 1)
    x = torch.randn(2, 3)
    plain = torch.nn.functional.linear(x, model.fc.weight, model.fc.bias)
    assert torch.equal(model(x), (plain + 1) * 2)


def test_freezing_a_batchnorm_by_eval_is_followed():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    plain = copy.deepcopy(net)
    model = taiyi_fx.instrument(net, {nn.Module: ["InputSndNorm"]})
    for m in (plain, model):
        m[1].eval()
    x = torch.randn(4, 3)
    assert torch.equal(model(x), plain(x))
    assert torch.equal(model[1].running_mean, torch.zeros(3))


@pytest.mark.parametrize("whole", [True, False], ids=["graph", "python"])
@pytest.mark.parametrize("how", ["deepcopy", "copy", "pickle", "save"])
def test_a_copy_reads_and_trains_as_the_original_does(how, whole):
    net = traced() if whole else Named()
    if how in ("pickle", "save"):
        net = nn.Sequential()
        net.add_module("fc", nn.Linear(3, 3))
    model = taiyi_fx.instrument(net, CFG)
    x = torch.randn(2, 3)
    expected = step(model, x)
    copies = {
        "deepcopy": copy.deepcopy,
        "copy": copy.copy,
        "pickle": lambda m: pickle.loads(pickle.dumps(m)),
        "save": saved,
    }
    twin = copies[how](model)
    assert isinstance(twin, taiyi_fx.InstrumentedModule)
    first, second = taiyi_fx.monitor_of(model), taiyi_fx.monitor_of(twin)
    assert first is not second
    assert second.next_step == 1
    assert not second.records
    assert (twin.fc.weight is model.fc.weight) == (how == "copy")
    assert step(twin, x, 1) == pytest.approx(expected)
    assert {record.step for record in first.records} == {0}
    assert twin.fc.weight.grad is not None


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def test_moving_and_converting_keeps_it_working():
    model = taiyi_fx.instrument(traced(), CFG)
    x = torch.randn(2, 3)
    model(x).sum().backward()
    model.double()
    model.zero_grad()
    found = step(model, x.double())
    assert found["InputSndNorm"] == pytest.approx(x.double().norm().item(), rel=1e-12)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (3, "takes a torch.nn.Module, not a int"),
        (
            nn.DataParallel(nn.Linear(2, 2)),
            r"use DistributedDataParallel\(instrument\(model, cfg\)\)",
        ),
        (torch.compile(nn.Linear(2, 2)), r"before it is wrapped: OptimizedModule\(instrument"),
        (
            nn.Sequential(torch.compiler.disable(nn.Linear(2, 2))),
            "the part '0' of the model was wrapped by torch.compiler.disable",
        ),
        (
            taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"0": "InputMean"}),
            "model is instrumented already",
        ),
    ],
    ids=["number", "DataParallel", "compiled", "disabled", "instrumented"],
)
def test_what_cannot_be_instrumented_says_what_to_do(model, text):
    with pytest.raises(TypeError, match=text):
        taiyi_fx.instrument(model, {"0": "InputMean"})


@pytest.mark.parametrize("step", [-1, "a", 1.5])
def test_a_start_step_that_is_none_is_refused(step):
    with pytest.raises(ValueError, match="start_step is a whole number of at least 0"):
        taiyi_fx.instrument(traced(), CFG, start_step=step)


def test_capture_whole_insists_on_one_graph():
    taiyi_fx.instrument(traced(), CFG, capture="whole")
    with pytest.raises(ValueError, match="does not become one graph") as error:
        taiyi_fx.instrument(Named(), CFG, capture="whole")
    assert "the model itself: " in str(error.value)


def test_a_graph_module_can_be_instrumented():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    model = taiyi_fx.instrument(fx.symbolic_trace(net), {"0": ["OutputGradSndNorm"]})
    x = torch.randn(2, 3)
    assert torch.equal(model(x), net(x))
    model(x).sum().backward()
    model.monitor.track(0)
    assert model.monitor.get_output()["0"]["OutputGradSndNorm"][0] > 0


def test_no_warning_without_a_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(taiyi_fx.instrument(traced(), CFG), torch.randn(2, 3))


def test_a_part_whose_targets_have_schedules_of_their_own_is_compiled_once_for_each_set():
    class Python(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

        def forward(self, x):
            return self.a(x) if x.numel() > 0 else x

    cfg = {"a.0": ["OutputNorm"], "a.2": [["OutputNorm", "linear(1, 1000)"]]}
    model = taiyi_fx.instrument(Python(), cfg)
    for step in range(6):
        model(torch.randn(2, 4)).sum().backward()
        model.monitor.track(step)
    (graph,) = model._instrumentation.compiled.installation.dispatchers["a"].graphs
    assert list(graph.probed) == [("train", ())]


def test_models_can_be_instrumented_in_several_threads():
    def instrument(_):
        layers = [layer for _ in range(20) for layer in (nn.Linear(4, 4), nn.ReLU())]
        return taiyi_fx.instrument(nn.Sequential(*layers), {nn.Linear: ["InputSndNorm"]})

    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(instrument, range(12)))
    for model in (*models, instrument(None)):
        model(torch.ones(2, 4))
        model.monitor.track(0)
        assert len(model.monitor.records) == 20


def trained_into(folder, steps, **options):
    """Trains from the monitor's next step on; returns the steps of the run."""
    model = taiyi_fx.instrument(nn.Linear(2, 2), {nn.Linear: ["InputMean"]}, run=folder, **options)
    for step in range(model.monitor.next_step, model.monitor.next_step + steps):
        model(torch.ones(1, 2)).sum().backward()
        model.monitor.track(step)
    model.monitor.close()
    with taiyi_fx.open_run(folder) as run:
        return run.series("", "InputMean").steps.tolist(), len(run.sessions)


def test_a_folder_with_a_run_asks_which_of_three_ways(tmp_path):
    assert trained_into(tmp_path, 3) == ([0, 1, 2], 1)
    with pytest.raises(FileExistsError) as error:
        trained_into(tmp_path, 3)
    for way in ("another folder", 'resume="auto"', "overwrite=True"):
        assert way in str(error.value)
    assert trained_into(tmp_path, 2, resume="auto") == ([0, 1, 2, 3, 4], 2)
    assert trained_into(tmp_path, 2, resume="auto", start_step=1) == ([0, 1, 2], 2)
    assert trained_into(tmp_path, 2, overwrite=True) == ([0, 1], 1)


def test_auto_begins_a_run_where_there_is_none(tmp_path):
    assert trained_into(tmp_path / "run", 2, resume="auto") == ([0, 1], 1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"overwrite": True}, "give its folder as run="),
        ({"resume": "auto"}, "give its folder as run="),
        ({"run": "x", "resume": "yes"}, "resume is \"auto\" or None, not 'yes'"),
        ({"run": "x", "resume": "auto", "overwrite": True}, "not both"),
    ],
)
def test_ways_to_use_a_run_that_do_not_fit_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        taiyi_fx.instrument(nn.Linear(2, 2), {nn.Linear: ["InputMean"]}, **options)
