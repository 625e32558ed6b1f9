"""Edits: what hooks that change a value or a gradient do, in the graph; and what is said of them."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from torch import nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx
from taiyi_fx import edit
from tests.models import Case, D, cases
from tests.test_invariants import assert_same_bits, instrumented, run


def is_leaf(name, module):
    return next(module.children(), None) is None


def positive(g):
    return g.clamp(min=0) * 2


def half(y):
    return y * 0.5


def first_of(output):
    return output if torch.is_tensor(output) else output[0]


def with_first(output, tensor):
    return tensor if torch.is_tensor(output) else (tensor, *output[1:])


def hooked(model, after=None, before=None):
    """A plain model whose leaves have hooks."""
    for name, module in model.named_modules():
        if is_leaf(name, module):
            if after:
                module.register_forward_hook(after)
            if before:
                module.register_forward_pre_hook(before, with_kwargs=True)
    return model


def with_gradient_hook(module, args, output):
    first = first_of(output)
    if not first.requires_grad:
        return output
    # On sequences it is a view: changed in place later, it would lose its hook.
    first = first.clone() if isinstance(module, nn.Linear) else first
    first.register_hook(positive)
    return with_first(output, first)


@settings(max_examples=60)
@given(cases())
def test_a_gradient_edit_at_an_output_is_a_hook_on_that_tensor(case: Case):
    probed = instrumented(case.twin(), {is_leaf: [edit(grad=positive)]})
    plain = hooked(case.twin(), after=with_gradient_hook)
    assert_same_bits(run(plain, case.batches), run(probed, case.batches))


@settings(max_examples=60)
@given(cases())
def test_a_value_edit_at_an_output_is_a_hook_that_returns_another(case: Case):
    def after(module, args, output):
        return with_first(output, half(first_of(output)))

    readings = ["ForwardOutput", "OutputGradSndNorm", ["InputSndNorm", "linear(2, 1)"]]
    probed = instrumented(case.twin(), {is_leaf: [*readings, edit(value=half)]})
    plain = hooked(case.twin(), after=after)
    assert_same_bits(run(plain, case.batches), run(probed, case.batches))


@settings(max_examples=60)
@given(cases())
def test_edits_at_an_input_are_those_of_what_the_module_is_given(case: Case):
    def before(module, args, kwargs):
        old = args[0] if args else kwargs["query"]
        if not old.is_floating_point():
            return args, kwargs
        new = half(old)
        if new.requires_grad and not getattr(module, "inplace", False):
            new.register_hook(positive)
        return (
            tuple(new if a is old else a for a in args),
            {k: new if v is old else v for k, v in kwargs.items()},
        )

    def of_numbers(name, module):
        return is_leaf(name, module) and not isinstance(module, nn.Embedding)

    def twice(name, module):
        return of_numbers(name, module) and not getattr(module, "inplace", False)

    cfg = {of_numbers: [edit(value=half, at="input")], twice: [edit(grad=positive, at="input")]}
    probed = instrumented(case.twin(), cfg)
    plain = hooked(case.twin(), before=before)
    assert_same_bits(run(plain, case.batches), run(probed, case.batches))


class Python(nn.Module):
    """Stays Python and calls one module twice."""

    def __init__(self):
        super().__init__()
        self.fc, self.act = nn.Linear(D, D), nn.ReLU(inplace=True)

    def forward(self, x, mask=None):
        if mask is not None:
            x = x * mask
        return self.act(self.fc(self.fc(x).tanh()))


class Whole(Python):
    def forward(self, x):
        return self.act(self.fc(self.fc(x).tanh()))


def gradients(model, x, loss=torch.sum):
    model.zero_grad()
    loss(model(x)).backward()
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def fc_hooked(model):
    def after(module, args, output):
        output.register_hook(positive)

    model.fc.register_forward_hook(after)
    return model


@pytest.mark.parametrize("kind", [Whole, Python])
def test_an_edit_alone_works_at_each_call_and_before_a_change_in_place(kind):
    model = kind()
    twin = copy.deepcopy(model)
    probed = taiyi_fx.instrument(model, {"fc": [edit(grad=positive)]})
    x = torch.randn(3, D)
    assert_same_bits(gradients(fc_hooked(twin), x), gradients(probed, x))
    probed.monitor.track(0)
    assert not probed.monitor.records


@pytest.mark.parametrize("kind", [Whole, Python])
@pytest.mark.parametrize("when", ["due", "not due", "paused", "closed", "evaluation"])
def test_an_edit_is_made_whatever_is_due(kind, when):
    def after(module, args, output):
        output = half(output)
        if output.requires_grad:
            output.register_hook(positive)
        return output

    model = kind()
    twin = copy.deepcopy(model)
    twin.fc.register_forward_hook(after)
    cfg = {"fc": [["OutputGradSndNorm", "linear(2, 0)"], edit(value=half), edit(grad=positive)]}
    probed = taiyi_fx.instrument(model, cfg, start_step=int(when == "not due"))
    if when in ("paused", "closed"):
        probed.monitor.pause() if when == "paused" else probed.monitor.close()
    if when == "evaluation":
        probed.eval()
        twin.eval()
    x = torch.randn(3, D)
    assert_same_bits(gradients(twin, x), gradients(probed, x))
    with torch.no_grad():
        assert torch.equal(twin(x), probed(x))


def test_only_what_has_to_be_is_overridden_and_only_while_it_runs():
    standing = []

    class Seen(Whole):
        def forward(self, x):
            standing.append([name for name, m in self.named_modules() if "forward" in vars(m)])
            return super().forward(x) if x.shape[0] else x

    cfg = {"fc": [["InputSndNorm", "linear(10, 5)"]]}
    taiyi_fx.instrument(Seen(), cfg)(torch.ones(1, D))
    cfg["fc"].append(edit(value=half))
    probed = taiyi_fx.instrument(Seen(), cfg)
    probed(torch.ones(1, D))
    assert standing == [[], ["", "fc"]]
    probed.monitor.track(0)
    assert not [m for m in probed.modules() if "forward" in vars(m)]


def test_several_edits_are_made_in_the_order_of_the_configuration():
    seen = []

    def noting(name, function):
        return lambda x: seen.append(name) or function(x)

    cfg = {
        "0": [
            edit(value=noting("value 1", lambda y: y + 1), grad=noting("grad 1", lambda g: g + 1)),
            edit(value=noting("value 2", lambda y: y * 2), grad=noting("grad 2", lambda g: g * 3)),
        ],
        "Linear": [edit(grad=noting("grad 3", lambda g: g - 4), tensor=0)],
    }
    model = nn.Sequential(nn.Linear(2, 2))
    x = torch.randn(3, 2)
    expected = (model(x) + 1) * 2
    probed = taiyi_fx.instrument(model, cfg)
    output = probed(x)
    assert torch.equal(output, expected)
    output.sum().backward()
    assert seen == ["value 1", "value 2", "grad 1", "grad 2", "grad 3"]
    # 1 from the sum, + 1, * 3, - 4, and the derivative of the value's edit.
    assert torch.equal(model[0].bias.grad, torch.full((2,), 2.0 * 2 * 3))


class Mine(nn.Module):
    """Not one of torch's own: who else holds its output cannot be known."""

    def forward(self, x):
        return x * 3


class Through(nn.Module):
    def forward(self, x):
        return x


class Row(nn.Module):
    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        for part in self.children():
            x = part(x)
        return x


class PythonRow(Row):
    def forward(self, x, mask=None):
        return super().forward(x if mask is None else x * mask)


def test_some_rows_are_graphs_and_some_stay_python():
    cfg = {"a": [edit(value=half)]}
    assert taiyi_fx.instrument(Row(a=Mine()), cfg).capture.is_whole
    assert "" in taiyi_fx.instrument(PythonRow(a=Mine()), cfg).capture.python


@pytest.mark.parametrize("layer", [lambda: nn.Linear(D, D), Mine, Through, nn.Identity])
@pytest.mark.parametrize("row", [Row, PythonRow])
def test_readings_see_the_edited_value_and_the_gradient_before(layer, row):
    cfg = {
        "before": ["ForwardOutput", "BackwardOutput"],
        "layer": [
            "ForwardInput", "BackwardInput", "ForwardOutput", "BackwardOutput",
            edit(value=lambda x: x + 1, grad=lambda g: g + 10, at="input"),
            edit(grad=lambda g: g * 2),
        ],
    }  # fmt: skip
    model = row(before=nn.Linear(D, D), layer=layer(), after=nn.Tanh())
    probed = taiyi_fx.instrument(model, cfg)
    probed(torch.randn(3, D)).sum().backward()
    probed.monitor.track(0)
    found = {
        name: {quantity: values[0] for quantity, values in quantities.items()}
        for name, quantities in probed.monitor.get_output().items()
    }
    assert torch.equal(found["layer"]["ForwardInput"], found["before"]["ForwardOutput"] + 1)
    middle = found["layer"]["ForwardInput"].clone().requires_grad_()
    made = model.layer(middle)
    assert torch.equal(found["layer"]["ForwardOutput"], made)
    at_output = 1 - made.detach().tanh() ** 2
    assert torch.allclose(found["layer"]["BackwardOutput"], at_output, atol=1e-5)
    (at_input,) = torch.autograd.grad(made, middle, at_output * 2)
    assert torch.allclose(found["layer"]["BackwardInput"], at_input, atol=1e-5)
    assert torch.allclose(found["before"]["BackwardOutput"], at_input + 10, atol=1e-5)


@pytest.mark.parametrize("row", [Row, PythonRow])
def test_the_gradient_of_a_weight_sample_by_sample_is_that_behind_the_edits(row):
    cfg = {"fc": [edit(value=half, grad=positive), edit(value=half, at="input")]}
    model = row(fc=nn.Linear(D, D), act=nn.Tanh())
    x = torch.randn(3, D)
    probed = taiyi_fx.instrument(model, {"fc": [*cfg["fc"], "PerSampleGradNorm", "OutputRMS"]})
    gradients(probed, x, lambda y: y.square().sum(1).mean())
    probed.monitor.track(0)
    plain = taiyi_fx.instrument(model, cfg)
    expected = [
        gradients(plain, sample[None], lambda y: y.square().sum())[0].norm().item() for sample in x
    ]
    found = probed.monitor.get_output()["fc"]["PerSampleGradNorm"][0]
    assert found.tolist() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("row", [Row, PythonRow])
def test_chained_edits_of_one_tensor_see_its_gradient_from_the_last_to_the_first(row):
    cfg = {
        "a": ["BackwardOutput", edit(grad=lambda g: g + 1)],
        "b": ["BackwardOutput", edit(grad=lambda g: g * 5)],
        "c": [edit(grad=lambda g: g - 3)],
    }
    probed = taiyi_fx.instrument(row(a=Mine(), b=Through(), c=Through()), cfg)
    x = torch.ones(2, requires_grad=True)
    probed(x).sum().backward()
    probed.monitor.track(0)
    found = probed.monitor.get_output()
    assert found["b"]["BackwardOutput"][0].tolist() == [-2, -2]
    assert found["a"]["BackwardOutput"][0].tolist() == [-10, -10]
    assert x.grad.tolist() == [-27, -27]


def test_a_gradient_at_an_input_is_that_of_this_use_alone_also_of_a_view():
    class Uses(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            y = x.view(-1, 2)
            return self.fc(y).sum() + y.sum()

    x = torch.randn(4, requires_grad=True)
    probed = taiyi_fx.instrument(Uses(), {"fc": [edit(grad=lambda g: g * 0, at="input")]})
    probed(x).backward()
    assert torch.equal(x.grad, torch.ones(4))


def test_a_view_that_is_given_and_changed_in_place_changes_its_base():
    class InPlace(nn.Module):
        def forward(self, x):
            return x.mul_(2)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = InPlace()

        def forward(self, x):
            y = x * 3
            return self.part(y[0]) + y.sum()

    plain = Model()
    x = torch.randn(2, 3, requires_grad=True)
    plain(x).sum().backward()
    expected, x.grad = x.grad, None
    taiyi_fx.instrument(plain, {"part": [edit(grad=half, at="input")]})(x).sum().backward()
    assert torch.equal(x.grad, expected)


@pytest.mark.parametrize("change", ["relu_", "add_"])
@pytest.mark.parametrize("layer", [lambda: nn.Linear(D, D), Mine, lambda: nn.LayerNorm(D)])
def test_a_change_in_place_behind_is_what_it_is_behind_a_hook(layer, change):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = layer()

        def forward(self, x):
            y = self.fc(x)
            return getattr(y, change)(*[x] * (change == "add_")) * 2

    model = Model()
    x = torch.randn(3, D, requires_grad=True)
    gradients(fc_hooked(copy.deepcopy(model)), x)
    expected, x.grad = x.grad, None
    gradients(taiyi_fx.instrument(model, {"fc": [edit(grad=positive)]}), x)
    assert torch.equal(x.grad, expected)


def test_a_tensor_of_the_users_own_that_is_handed_through_keeps_no_hook():
    x = torch.randn(3, requires_grad=True)
    probed = taiyi_fx.instrument(nn.Sequential(nn.Identity()), {"0": [edit(grad=half)]})
    for _ in range(2):
        x.grad = None
        probed(x).sum().backward()
        assert x.grad.tolist() == [0.5] * 3
    assert not x._backward_hooks


class Blocks(nn.Module):
    def __init__(self, reentrant=None):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(D, D), nn.Tanh()) for _ in range(2))
        self.reentrant = reentrant

    def forward(self, x):
        for block in self.blocks:
            if self.reentrant is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("readings", [[], ["InputSndNorm"], [["InputSndNorm", "linear(2, 1)"]]])
def test_the_second_forward_of_a_checkpoint_makes_the_same_edits(reentrant, readings):
    cfg = {
        "blocks.0.0": [*readings, edit(value=half, grad=positive)],
        nn.Tanh: [edit(value=half, at="input")],
    }
    whole, parts = Blocks(), Blocks(reentrant)
    parts.load_state_dict(whole.state_dict())
    x = torch.randn(3, D, requires_grad=True)
    expected = gradients(taiyi_fx.instrument(whole, cfg), x)
    assert_same_bits(expected, gradients(taiyi_fx.instrument(parts, cfg), x))


class Within(nn.Module):
    """Has a checkpoint within another; None is neither."""

    def __init__(self, outer, inner):
        super().__init__()
        torch.manual_seed(0)
        self.outer, self.inner = outer, inner
        self.first, self.a, self.b, self.c = (nn.Linear(D, D) for _ in range(4))

    def kept(self, function, x, reentrant):
        return (
            function(x) if reentrant is None else checkpoint(function, x, use_reentrant=reentrant)
        )

    def innermost(self, x):
        return self.b(x).tanh()

    def body(self, x):
        return self.c(self.kept(self.innermost, self.a(x).tanh(), self.inner)).tanh()

    def forward(self, x):
        return self.kept(self.body, self.first(x), self.outer)


NESTED = pytest.mark.parametrize(
    ("outer", "inner"), [*itertools.product([None, False, True], [False, True])]
)


@NESTED
@pytest.mark.parametrize("readings", [[], ["InputAbsMax"]])
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
def test_checkpoints_within_checkpoints_make_the_same_edits_and_count_once(outer, inner, readings):
    cfg = {"b": [*readings, edit(value=half, grad=positive)], "a": [edit(value=half, at="input")]}
    x = torch.randn(3, D, requires_grad=True)
    found, read = [], []
    for ways in ((None, None), (outer, inner)):
        probed = taiyi_fx.instrument(Within(*ways), cfg)
        for step in range(2):
            found.append(gradients(probed, x))
            probed.monitor.track(step)
        read.append(probed.monitor.get_output())
    for expected, each in zip(found[:2], found[2:], strict=True):
        assert_same_bits(expected, each)
    assert read[0] == read[1]
    assert len(read[0]) == len(readings)


@NESTED
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
def test_an_edit_of_a_call_in_a_checkpointed_piece_of_a_forward_is_refused(outer, inner):
    probed = taiyi_fx.instrument(Within(outer, inner), {torch.Tensor.tanh: [edit(value=half)]})
    with torch.no_grad():  # where nothing is run again
        probed(x := torch.randn(3, D, requires_grad=True))
    with pytest.raises(RuntimeError, match="make a module of that piece"):
        probed(x)


@pytest.mark.parametrize("reentrant", [False, True])
def test_an_edit_of_a_call_in_a_checkpointed_module_is_made_again(reentrant):
    class Calls(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(D, D)

        def forward(self, x):
            return self.fc(x).tanh() * (2 if x.sum() < 1e9 else 1)

    cfg = {torch.Tensor.tanh: [edit(value=half, grad=positive)]}
    whole, parts = Blocks(), Blocks(reentrant)
    for model in (whole, parts):
        torch.manual_seed(0)
        model.blocks = nn.ModuleList([Calls(), Calls()])
    x = torch.randn(3, D, requires_grad=True)
    expected = gradients(taiyi_fx.instrument(whole, cfg), x)
    assert_same_bits(expected, gradients(taiyi_fx.instrument(parts, cfg), x))


class Adds(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        y = self.a(x) + self.b(x)
        return y if self.training else y * 2


@pytest.mark.parametrize("training", [True, False])
def test_calls_of_functions_are_edited(training):
    model = Adds().train(training)
    cfg = {operator.add: [edit(value=half, grad=positive), edit(grad=half, at="input", tensor=1)]}
    probed = taiyi_fx.instrument(copy.deepcopy(model).train(), cfg).train(training)
    x = torch.randn(3, D)
    a, b = model.a(x), model.b(x)
    y = (a + b) * 0.5
    assert torch.equal(probed(x), y if training else y * 2)
    weights = torch.randn(3, D)
    found = gradients(probed, x, lambda y: (y * weights).sum())
    arrived = positive(weights if training else weights * 2) * 0.5
    assert torch.allclose(found[1], arrived.sum(0))
    assert torch.allclose(found[3], arrived.sum(0) / 2)


def test_a_call_of_a_function_that_no_graph_shows_any_more_is_edited():
    model = nn.Sequential(Adds())
    probed = taiyi_fx.instrument(model, {operator.add: [edit(value=half)]})
    model[0].a = nn.Linear(D, D)
    x = torch.randn(3, D)
    assert torch.equal(probed(x), half(model[0].a(x) + model[0].b(x)))


def test_a_checkpoint_of_the_model_itself_is_run_again_without_edits():
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(D, D), nn.Linear(D, D)

        def forward(self, x):
            return self.b(checkpoint(lambda x: self.a(x).tanh(), x, use_reentrant=False))

    model = Checkpointed()
    twin, x = copy.deepcopy(model), torch.randn(3, D)
    probed = taiyi_fx.instrument(model, {"a": [edit(value=half)]})
    probed(x)  # its edits wait for a backward
    for each in (model, twin):
        each(x).sum().backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), twin.parameters(), strict=True))  # fmt: skip


def test_evaluations_of_an_edited_model_leave_nothing_behind():
    probed = taiyi_fx.instrument(nn.Linear(D, D), {"": [edit(value=half)]})
    with torch.no_grad():
        for _ in range(20):
            probed(torch.randn(3, D))
    run = probed._instrumentation.compiled.installation.run
    assert not run.made
    probed(torch.randn(3, D))
    assert len(run.made) == 1


def test_a_tensor_is_picked_as_readings_pick_it():
    class Pair(nn.Module):
        def forward(self, x, mask):
            return {"x": x * mask, "mask": mask}

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = Pair()

        def forward(self, x):
            found = self.pair(x, mask=x)
            return found["x"] + 10 * found["mask"]

    for pick in (1, "mask"):
        cfg = {"pair": [edit(value=lambda x: x + 1, at="input", tensor=pick)]}
        cfg["pair"].append(edit(value=lambda y: y * 3, tensor="x"))
        assert taiyi_fx.instrument(Model(), cfg)(torch.full((1,), 2.0)).item() == 2 * 3 * 3 + 30


def test_one_argument_that_is_a_tuple_is_looked_into():
    class Sum(nn.Module):
        def forward(self, pair):
            return pair[0] + pair[1]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.split, self.sum = Split(), Sum()

        def forward(self, x):
            return self.sum(self.split(x))

    class Split(nn.Module):
        def forward(self, x):
            return x, x * 2

    cfg = {"sum": [edit(value=lambda x: x + 1, at="input", tensor=0)], "split": []}
    assert taiyi_fx.instrument(Model(), cfg)(torch.ones(1)).item() == 4


MASK = torch.rand(D)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("kind", [Whole, Python])
def test_compiled_edits_give_the_eager_numbers(kind, backend):
    cfg = {
        "fc": [
            ["InputSndNorm", "linear(2, 0)"], ["OutputGradSndNorm", "linear(2, 0)"],
            edit(value=lambda y: y * MASK, grad=positive),
            edit(grad=lambda g: g * MASK + 1, at="input"),
        ],
        "act": [edit(value=torch.tanh, grad=half)],
    }  # fmt: skip
    model = kind()
    eager, compiled = (taiyi_fx.instrument(copy.deepcopy(model), cfg) for _ in range(2))
    runs = torch.compile(compiled, fullgraph=True, backend=backend)
    for step, x in enumerate(torch.randn(4, 3, D)):
        for m in (eager, compiled):
            m.zero_grad()
            m.train(step < 3)
        outputs = eager(x), runs(x)
        torch.testing.assert_close(*outputs)
        for m, output in zip((eager, compiled), outputs, strict=True):
            output.square().sum().backward()
            m.monitor.track(step)
        for a, b in zip(eager.parameters(), compiled.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad)
    pairs = list(zip(eager.monitor.records, compiled.monitor.records, strict=True))
    assert len(pairs) == 8
    for a, b in pairs:
        assert b.value == pytest.approx(a.value, rel=1e-4)


class Holding(nn.Module):
    """Gives its results in a dictionary."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(D, D)

    def forward(self, x):
        return {"hidden": self.fc(x), "given": x}


class TakesOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.holding, self.identity = Holding(), nn.Identity()

    def forward(self, x):
        return self.identity(self.holding(x)["hidden"]).square()


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_results_in_a_structure_and_handed_through_are_edited_compiled_or_not(backend):
    model = TakesOne()
    cfg = {
        "holding": [edit(grad=positive), edit(value=half, tensor="hidden")],
        "identity": [edit(grad=lambda g: g - 1), edit(grad=half, at="input")],
        "": [edit(grad=lambda g: g * 3)],
    }
    probed = taiyi_fx.instrument(model, cfg)
    runs = probed if backend is None else torch.compile(probed, backend=backend, fullgraph=True)
    x = torch.randn(3, D)
    runs(x).sum().backward()
    hidden = model.holding.fc(x).detach() * 0.5
    arrived = positive((3 * 2 * hidden - 1) * 0.5) * 0.5
    torch.testing.assert_close(probed.holding.fc.bias.grad, arrived.sum(0))


@pytest.mark.parametrize("kind", [Whole, Python])
@pytest.mark.parametrize("training", [True, False])
def test_the_model_itself_and_parts_that_stayed_python_are_edited(kind, training):
    cfg = {nn.Module: [edit(value=half, grad=positive)]}
    model = nn.Sequential(kind()).train(training)
    twin = copy.deepcopy(model)
    for module in twin.modules():
        module.register_forward_hook(lambda module, args, output: half(output))
        module.register_forward_hook(lambda m, a, output: output.register_hook(positive) and None)
    x = torch.randn(3, D)
    probed = taiyi_fx.instrument(model, cfg)
    assert torch.equal(twin(x), probed(x))
    assert_same_bits(gradients(twin, x), gradients(probed, x))


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), copy.copy])
def test_copies_and_pickles_keep_edits(how):
    probed = taiyi_fx.instrument(Whole(), {"fc": [edit(value=half, grad=positive)]})
    again = how(probed)
    x = torch.randn(3, D)
    assert torch.equal(probed(x), again(x))
    assert_same_bits(gradients(probed, x), gradients(again, x))


def test_a_part_that_torchs_fast_path_would_pass_over_is_edited_in_evaluation():
    layer = nn.TransformerEncoderLayer(D, 2, 8, batch_first=True)
    model = nn.Sequential(layer).eval()
    x = torch.randn(2, 4, D)
    twin = copy.deepcopy(model)
    twin[0].linear2.register_forward_hook(lambda module, args, output: half(output))
    probed = taiyi_fx.instrument(model, {"0.linear2": [edit(value=half)]})
    with torch.no_grad():
        torch.testing.assert_close(probed(x), twin(x))
    probed.monitor.close()
    assert layer.activation_relu_or_gelu == 1


def test_functional_transforms_go_through_edits():
    probed = taiyi_fx.instrument(Whole(), {"fc": [edit(value=half, grad=positive)]})
    x = torch.randn(3, D)
    expected = gradients(probed, x)
    parameters = dict(probed.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(probed, parameters, (x,)).sum()

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for a, b in zip(expected, found.values(), strict=True):
        torch.testing.assert_close(a, b.sum(0))


# What is said


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({}, ValueError, "an edit changes something: give it value=, grad= or both"),
        ({"value": 3}, TypeError, "an edit's value is a function of a tensor, not 3"),
        ({"grad": "clamp"}, TypeError, "an edit's grad is a function of a tensor, not 'clamp'"),
        ({"grad": half, "at": "in"}, ValueError, "at 'output' or at 'input', not at 'in'"),
        ({"grad": half, "tensor": 0.5}, TypeError, "a position or a name, not 0.5"),
    ],
)
def test_what_is_no_edit_is_refused_where_it_is_made(given, error, text):
    with pytest.raises(error, match=text):
        edit(**given)


def test_what_is_wrong_in_a_configuration_is_said_with_everything_else():
    cfg = {
        "fc": [[edit(value=half), "every(2)"], "InputNorm"],
        "act": edit(grad=half, at="input"),
        "Linear": [edit(value=half, at="input", tensor="mask")],
    }
    with pytest.raises(taiyi_fx.ConfigError) as caught:
        taiyi_fx.instrument(Whole(), cfg)
    first, second, *rest = caught.value.problems
    assert first == (
        "cfg['fc'][0]: an edit is an entry of its own: it takes no schedule and no options"
    )
    assert "InputNorm" in second
    assert rest == [
        "cfg['act'][0]: the edit cannot be made: 'act' (ReLU) changes its input in place: edit the "
        "gradient of its output instead",
        "cfg['Linear'][0]: the edit cannot be made: 'fc' (Linear) has no argument 'mask'; it takes "
        "input",
    ]


def test_what_a_class_matches_and_cannot_be_edited_is_said():
    model = nn.Sequential(nn.ReLU(), nn.ReLU(inplace=True))
    with pytest.warns(taiyi_fx.MonitorWarning, match="'1': is not edited: it changes its input"):
        taiyi_fx.instrument(model, {nn.ReLU: [edit(grad=half, at="input")]})


class Aside(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.aside, self.unused = (nn.Linear(D, D) for _ in range(3))

    def forward(self, x):
        return self.used(x) + self.aside(x).detach()


def test_an_edit_that_is_never_made_is_said():
    with pytest.warns(taiyi_fx.MonitorWarning) as told:
        taiyi_fx.instrument(Aside(), {nn.Linear: [edit(grad=half)]})
    assert str(told[0].message) == (
        "some probes or edits will see nothing:\n"
        "  - 'unused': the model's forward never calls this module\n"
        "  - 'aside': no gradient can reach it: it does not lead to the output"
    )


def raises(x):
    raise ZeroDivisionError("mine")


@pytest.mark.parametrize("kind", [Whole, Python])
@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"value": lambda y: None}, TypeError, "the edit of the value at the output of 'fc' returned None; it has to return the tensor to pass on"),
        ({"grad": lambda g: None}, TypeError, "the edit of the gradient at the output of 'fc' returned None for a tensor of shape (3, 6), float32 on cpu; it has to return the gradient to pass on"),
        ({"grad": lambda g: g[0], "at": "input"}, ValueError, "the edit of the gradient at the input of 'fc' returned a tensor of shape (6,), float32 on cpu for a tensor of shape (3, 6), float32 on cpu; both need the same shape, dtype and device"),
        ({"grad": lambda g: g.double()}, ValueError, "returned a tensor of shape (3, 6), float64 on cpu for"),
        ({"grad": lambda g: g.mul_(2)}, ValueError, "the edit of the gradient at the output of 'fc' changed the gradient in place, but others may hold it: return a new tensor instead"),
        ({"value": half, "at": "output", "tensor": 1}, LookupError, "the edit at the output of 'fc' finds no tensor at 1: the value there is a tensor of shape (3, 6)"),
        ({"value": raises}, ZeroDivisionError, "mine\nin the edit of the value at the output of 'fc'"),
        ({"grad": raises}, ZeroDivisionError, "mine\nin the edit of the gradient at the output of 'fc'"),
    ],
)  # fmt: skip
def test_a_wrong_function_is_an_error_that_names_its_site(kind, wrong, error, text):
    probed = taiyi_fx.instrument(kind(), {"fc": [edit(**wrong), "InputSndNorm"]})
    with pytest.raises(error) as caught:
        probed(torch.randn(3, D)).sum().backward()
    notes = getattr(caught.value, "__notes__", [])
    assert text in "\n".join([str(caught.value), *notes])


def test_a_second_derivative_through_a_gradient_edit_is_refused():
    probed = taiyi_fx.instrument(Whole(), {"fc": [edit(grad=positive)]})
    weight = probed.fc.weight
    (gradient,) = torch.autograd.grad(
        probed(torch.randn(3, D)).square().sum(), weight, create_graph=True
    )
    with pytest.raises(RuntimeError, match="output of 'fc' has no derivative"):
        gradient.square().sum().backward()


# The graph and the picture


def test_the_graph_has_edits_before_their_probes_and_keeps_them_apart():
    model = nn.Sequential(nn.Linear(D, D), nn.Tanh())
    cfg = {
        "0": ["OutputRMS", edit(value=half)],
        "1": ["InputSndNorm", edit(value=half, at="input")],
    }
    nodes = taiyi_fx.instrument(model, cfg)._instrumentation.compiled.parts[""].nodes
    names = [getattr(n.target, "__name__", n.target) for n in nodes]
    assert names == [
        "input", "0", "0.output.edit", "0.output", "1.input.edit", "1.input", "1", "output",
    ]  # fmt: skip


def test_the_diagram_has_a_mark_of_its_own_for_edits():
    model = nn.Sequential(nn.Linear(D, D), nn.Tanh(), nn.Linear(D, D))
    cfg = {
        "0": [edit(value=half, grad=lambda g: g), "InputSndNorm"],
        "1": edit(grad=half, at="input", tensor=0),
    }
    picture = taiyi_fx.diagram(taiyi_fx.instrument(model, cfg))
    marks = [
        item.marks for _, item in picture.to_networkx().nodes(data="item") if item.kind == "module"
    ]
    assert marks[0].edits == ("output value · half", "output gradient · lambda")
    assert marks[1].edits == ("input gradient [input] · half",)
    assert not marks[2]
    assert "ƒ" in picture.to_dot()
    assert "edit, changes what passes" in picture.to_dot()
    assert repr(picture) == "<diagram of 5 boxes, 1 with probes, 2 with edits>"
    plain = taiyi_fx.diagram(taiyi_fx.instrument(model, {"0": ["InputSndNorm"]}))
    assert "ƒ" not in plain.to_dot()


def test_a_forward_that_stayed_python_is_drawn_with_its_edits():
    cfg = {"fc": ["InputSndNorm", edit(grad=half)]}
    probed = taiyi_fx.instrument(Python(), cfg)
    probed(torch.randn(3, D)).sum().backward()
    for picture in (
        taiyi_fx.diagram(probed),
        taiyi_fx.diagram(taiyi_fx.instrument(Python(), cfg), example_inputs=torch.randn(3, D)),
    ):
        items = dict(picture.to_networkx().nodes(data="item")).values()
        marks = [item.marks.edits for item in items if item.module.startswith("fc")]
        assert marks == [("output gradient · half",)] * 2


def test_the_diagram_marks_an_edited_call_of_a_function():
    probed = taiyi_fx.instrument(Adds(), {operator.add: [edit(value=F.relu)]})
    found = taiyi_fx.diagram(probed).to_networkx().nodes(data="item")
    assert [i.marks.edits for _, i in found if i.label == "add"] == [("output value · relu",)]
