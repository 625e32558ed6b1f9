"""The stage of a replay: all is as it was afterwards."""

import copy
import random
import threading

import numpy as np
import pytest
import torch
from torch import nn

from taiyi_fx.recorder.replay.calls import Call
from taiyi_fx.recorder.replay.iterators import CannotRepeat
from taiyi_fx.recorder.replay.stage import copied_arguments, optimizer_on, staged, surroundings
from taiyi_fx.snapshot.bitwise import difference
from tests.recorder.replay.given import Net
from tests.recorder.replay.test_checkpoint import state_of, trained


def everything(model, optimizer):
    found = {f"model.{n}": x for n, x in model.state_dict().items()}
    found |= {f"grad.{n}": p.grad for n, p in model.named_parameters()}
    for i, state in enumerate(optimizer.state.values()):
        found |= {f"{i}.{k}": v for k, v in state.items()}
    return {n: x if x is None else x.clone() for n, x in found.items()}


def test_the_training_is_untouched_to_the_bit():
    model = Net()
    optimizer = trained(model)
    state = state_of(model, optimizer)
    trained_again = optimizer
    model(torch.randn(4, 4)).sum().backward()
    trained_again.step()
    held = {n: (id(p), p._version, p.data_ptr()) for n, p in model.named_parameters()}
    before, count = everything(model, optimizer), model.count
    drawn = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    with staged(model, state) as tensors:
        assert {id(p) for p in model.parameters()}.isdisjoint(i for i, _, _ in held.values())
        assert torch.equal(model.first.weight, state.tensors["model.first.weight"])
        assert model.first.weight is tensors["first.weight"]
        other = optimizer_on(optimizer, state.optimizers[0], state.tensors, tensors)
        model.count += 5
        model(torch.randn(4, 4) + np.random.rand() + random.random()).sum().backward()
        other.step()
    assert {n: (id(p), p._version, p.data_ptr()) for n, p in model.named_parameters()} == held
    after = everything(model, optimizer)
    assert [n for n in before if before[n] is not None and difference(before[n], after[n])] == []
    assert model.count == count
    assert torch.equal(torch.get_rng_state(), drawn[0])
    assert np.array_equal(np.random.get_state()[1], drawn[1])
    assert random.getstate() == drawn[2]


def test_it_is_put_back_after_an_error():
    model = Net()
    weight = model.first.weight
    with pytest.raises(KeyError), staged(model, state_of(model)):
        raise KeyError
    assert model.first.weight is weight


def test_tied_and_recurrent_parameters_are_the_same_on_stage():
    model = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3), "c": nn.GRU(3, 3)})
    model["b"].weight = model["a"].weight
    state = state_of(model)
    with staged(model, state):
        assert model["a"].weight is model["b"].weight
        model["c"](torch.ones(1, 1, 3))[0].sum().backward()
        assert model["c"].weight_hh_l0.grad is not None
    assert model["a"].weight is model["b"].weight
    assert model["c"].weight_hh_l0.grad is None
    assert model["c"]._flat_weights[0] is model["c"].weight_ih_l0


def test_hooks_of_a_parallel_wrapper_see_nothing():
    model, seen = nn.Linear(2, 2), []
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: seen.append(p))
    with staged(model, state_of(model)):
        model(torch.ones(1, 2)).sum().backward()
    assert not seen


def test_another_optimizer_makes_the_very_step():
    for kind in (torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad):
        model = nn.Linear(3, 3)
        optimizer = kind(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        for _ in range(2):
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
            schedule.step()
        state = state_of(model, optimizer)
        seen = []
        optimizer.register_step_pre_hook(lambda *_, seen=seen: seen.append(1))
        gradient = torch.randn(3, 3)
        with staged(model, state) as tensors:
            other = optimizer_on(optimizer, state.optimizers[0], state.tensors, tensors)
            tensors["weight"].grad = gradient.clone()
            other.step()
            made = tensors["weight"].detach().clone()
        assert not seen
        model.weight.grad, model.bias.grad = gradient, None
        optimizer.step()
        assert torch.equal(made, model.weight)


def test_arguments_are_copies_without_a_graph():
    x = torch.ones(2, requires_grad=True) * 2
    call = Call((x, [x, 3]), {"y": torch.ones(1)}, is_compiled=False)
    (a, (b, three)), kwargs = copied_arguments(call)
    assert a is b
    assert a is not x
    assert (a.is_leaf, a.requires_grad, three) == (True, True, 3)
    assert kwargs["y"] is not call.kwargs["y"]
    assert torch.equal(a, x)


def test_arguments_without_a_copy_are_refused():
    with pytest.raises(CannotRepeat, match="an argument of the model has no copy: .*lock"):
        copied_arguments(Call((threading.Lock(),), {}, is_compiled=False))
    with pytest.raises(CannotRepeat, match="argument 0 of the model is or holds an iterator"):
        copied_arguments(Call((iter([1]),), {}, is_compiled=False))


def test_random_numbers_and_autocast_are_those_of_the_call():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        call = Call((), {}, is_compiled=False)
    drawn = torch.rand(3)
    with surroundings(call):
        assert torch.equal(torch.rand(3), drawn)
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")
    assert copy.copy(call).autocast == call.autocast
