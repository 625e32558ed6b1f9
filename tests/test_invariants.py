"""What must hold for any model: the same numbers, no hooks, no change, true readings."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils import _pytree as pytree

import taiyi_fx
from taiyi_fx.snapshot.bitwise import difference
from taiyi_fx.testing import assert_faithful, check_faithful, models
from taiyi_fx.testing.blocks import BLOCKS, Chain, D, Heads, Residual, Views
from taiyi_fx.testing.check_faithful import total, trained
from tests.examples import tried
from tests.models import Case, cases

LEAVES = {
    lambda name, module: next(module.children(), None) is None: [
        "InputSndNorm",
        "ForwardOutput",
        "OutputGradSndNorm",
        ["InputCovMaxEig", "linear(2, 1)"],
    ]
}


def instrumented(model, cfg=LEAVES, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        return taiyi_fx.instrument(model, cfg, **options)


def tracked(model, step):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        model.monitor.track(step)


def run(model, batches):
    """Everything that training and evaluation leave behind, with the random stream's end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        return [value for _, value in trained(model, batches)]


def assert_same_bits(plain, probed):
    assert len(plain) == len(probed)
    for i, (a, b) in enumerate(zip(plain, probed, strict=True)):
        assert not difference(a, b), f"result {i}"


@tried(30, of=100)
def test_an_instrumented_model_is_bit_equal_to_the_plain_one(examples):
    check_faithful(models(), max_examples=examples)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.__name__)
def test_each_block_alone_is_bit_equal_with_every_module_probed(block):
    everything = {nn.Module: ["InputSndNorm", "ForwardOutput", "OutputGradSndNorm"]}
    assert_faithful(Chain(block()), [torch.randn(4, 4, D), torch.randn(3, 4, D)], everything)


def autograd_nodes(output):
    """How often each kind of node is in autograd's graph."""
    found, waiting = {}, [y.grad_fn for y in pytree.tree_leaves(output)]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in found:
            found[node] = node.name()
            waiting += [before for before, _ in node.next_functions]
    return Counter(found.values())


@pytest.mark.parametrize(
    "block", [b for b in BLOCKS if b not in (Residual, Views)], ids=lambda b: b.__name__
)
def test_autograd_records_what_it_records_of_the_plain_model(block):
    # But for the two, whose views are changed in place: behind a tap they are views of its output.
    plain, batch = Chain(block()), torch.randn(4, 4, D)
    probed = instrumented(plain, {nn.Module: ["InputSndNorm", "OutputGradSndNorm"]})
    torch.manual_seed(0)
    nodes = autograd_nodes(plain(batch))
    torch.manual_seed(0)
    of_probed = autograd_nodes(probed(batch))
    del of_probed["EagerTapBackward"]
    assert of_probed == nodes


def test_no_function_stands_in_the_path_of_what_stays_inside():
    model = nn.Sequential(nn.Linear(D, D), Heads(), nn.Linear(D, D))
    probed = instrumented(model, {nn.Linear: ["OutputGradSndNorm"]})
    batch = torch.randn(4, 4, D)
    # What is returned may be changed in place: a view, as it is up to torch 2.14, needs a function.
    assert autograd_nodes(probed(batch))["EagerTapBackward"] == model(batch)._is_view()


def watched(model, batch):
    """Norms of inputs and output gradients of every leaf's calls, by ordinary hooks."""
    seen, handles = {}, []

    def watch(name, module):
        def before(module, args, kwargs):
            tensors = [a for a in (*args, *kwargs.values()) if torch.is_tensor(a)]
            entry = {"input": tensors[0].detach().double().norm().item()}
            seen.setdefault(name, []).append(entry)

        def after(module, args, kwargs, output):
            entry = seen[name][-1]
            first = output if torch.is_tensor(output) else output[0]
            entry["output"] = first.detach().clone()
            if first.requires_grad:
                # On sequences it is a view: changed in place later, it would lose its hook.
                first = output = first.clone() if isinstance(module, nn.Linear) else output
                first = first if torch.is_tensor(first) else first[0]
                first.register_hook(lambda g: entry.update(gradient=g.double().norm().item()))
            return output

        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after, with_kwargs=True))

    for name, module in model.named_modules():
        if next(module.children(), None) is None:
            watch(name, module)
    total(model(batch)).backward()
    for handle in handles:
        handle.remove()
    return {f"{n}@{i}" if i else n: e for n, calls in seen.items() for i, e in enumerate(calls)}


@settings(max_examples=60)
@given(cases())
def test_every_call_of_every_leaf_is_read_truly(case: Case):
    torch.manual_seed(2)
    truth = watched(case.twin(), case.batches[0])
    probed = instrumented(case.twin())
    torch.manual_seed(2)
    total(probed(case.batches[0])).backward()
    tracked(probed, 0)
    output = probed.monitor.get_output()
    assert set(output) == set(truth)
    for name, entry in truth.items():
        assert output[name]["InputSndNorm"][0] == pytest.approx(entry["input"], rel=1e-5)
        assert torch.equal(output[name]["ForwardOutput"][0], entry["output"])
        gradient = output[name].get("OutputGradSndNorm", {}).get(0)
        if "gradient" in entry or gradient is not None:
            assert gradient == pytest.approx(entry["gradient"], rel=1e-5, abs=1e-12)


@settings(max_examples=30)
@given(cases())
def test_the_model_is_left_untouched_and_its_parameters_are_shared(case: Case):
    model = case.model
    before = {name: dict(vars(m)) for name, m in model.named_modules()}
    state = {k: v.clone() for k, v in model.state_dict().items()}
    random_state = torch.get_rng_state()
    probed = instrumented(model)
    assert torch.equal(random_state, torch.get_rng_state())
    assert {name: dict(vars(m)) for name, m in model.named_modules()} == before
    assert all(torch.equal(state[k], v) for k, v in model.state_dict().items())
    assert list(probed.state_dict()) == list(model.state_dict())
    pairs = zip(probed.parameters(), model.parameters(), strict=True)
    assert all(a is b for a, b in pairs)
    assert isinstance(probed, torch.fx.GraphModule)
    assert isinstance(probed, Chain)
    for module in probed.modules():
        hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
        assert not any(hooks)


@settings(max_examples=30)
@given(cases(), st.integers(2, 4))
def test_micro_batches_are_one_step(case: Case, parts: int):
    batch = torch.randn(parts * 2, 4, D)
    # Batch statistics and random masks make a split batch another computation.
    cfg = {"first": ["InputSndNorm", "InputMean", "InputStd", "InputCovMaxEig", "ForwardInput"]}
    whole, split = instrumented(case.twin(), cfg), instrumented(case.twin(), cfg)
    total(whole(batch)).backward()
    tracked(whole, 0)
    for part in batch.chunk(parts):
        total(split(part)).backward()
    tracked(split, 0)
    expected, found = (m.monitor.get_output()["first"] for m in (whole, split))
    assert torch.equal(found.pop("ForwardInput")[0], expected.pop("ForwardInput")[0])
    for quantity, values in expected.items():
        assert found[quantity][0] == pytest.approx(values[0], rel=1e-4, abs=1e-6), quantity


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.__name__)
def test_no_activation_or_gradient_outlives_the_step(block):
    probed = instrumented(Chain(block()), {nn.Module: ["InputSndNorm", "OutputGradSndNorm"]})
    alive = []

    class Note(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            made = func(*args, **(kwargs or {}))
            if torch.is_tensor(made) and made.ndim > 1 and not isinstance(made, nn.Parameter):
                alive.append(weakref.ref(made))
            return made

    batch = torch.randn(4, 4, D)
    with Note():
        total(probed(batch)).backward()
    tracked(probed, 0)
    parameters = {id(p) for p in (*probed.parameters(), *probed.buffers(), batch)}
    gc.collect()
    assert alive
    left = [r() for r in alive if r() is not None and id(r()) not in parameters]
    gradients = {id(p.grad) for p in probed.parameters()}
    assert not [t.shape for t in left if id(t) not in gradients]


@settings(max_examples=30)
@given(cases())
def test_nothing_due_runs_the_models_own_forward(case: Case):
    cfg = {nn.Module: [["InputSndNorm", "linear(10, 5)"]]}
    probed = instrumented(case.twin(), cfg)
    assert not [m for m in probed.modules() if "forward" in vars(m)]
    assert_faithful(case.twin(), case.batches, cfg)
