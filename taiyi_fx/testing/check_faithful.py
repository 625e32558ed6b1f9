"""An instrumented model against its plain twin: the same bits everywhere."""

from __future__ import annotations

import copy
import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import taiyi_fx
from taiyi_fx.passes.runtime.random_state import random_state, restore_random_state
from taiyi_fx.snapshot.bitwise import difference as difference_of_bits
from taiyi_fx.testing.config import is_leaf
from taiyi_fx.testing.failure import CheckFailure, run_examples
from taiyi_fx.testing.module import ModuleRecipe
from taiyi_fx.testing.program import Program
from taiyi_fx.testing.tensor import TensorRecipe

Cfg = Mapping[Any, Any]
EVERY_LEAF: Cfg = {
    is_leaf: [
        "InputSndNorm",
        "ForwardOutput",
        "OutputGradSndNorm",
        ["InputCovMaxEig", "linear(2, 1)"],
    ]
}
"""Every module without parts: its input, its output and the output's gradient."""


def check_faithful(
    models: st.SearchStrategy[ModuleRecipe],
    cfg: Cfg | Callable[[nn.Module], st.SearchStrategy[Cfg]] = EVERY_LEAF,
    *,
    max_examples: int = 50,
    device: str = "cpu",
) -> None:
    """Checks that instrumented models are bit-equal to plain ones, by `assert_faithful`.

    Args:
        models: Draws models with the shape of an input that fits: `models()` or `modules()` of
            this kit, or recipes of your own, ``st.just(ModuleRecipe(Net, (10,), shape=(3, 8)))``.
        cfg: The configuration, or a function that takes a model and returns a strategy of them,
            such as `configs`.
        max_examples: How many examples are tried.
        device: Where the examples run: ``"cpu"``, ``"cuda"``, ...

    Raises:
        CheckFailure: An example is wrong. The message holds a program that shows it.
    """
    moved = models.map(lambda recipe: dataclasses.replace(recipe, device=device))
    run_examples(_check, _examples(moved, cfg), max_examples)


@dataclass(frozen=True)
class Example:
    """A model, its batches and a configuration."""

    recipe: ModuleRecipe
    batches: tuple[TensorRecipe, ...]
    cfg: Cfg

    def failure(self, problem: str) -> CheckFailure:
        """The failure that shows the example."""
        program = Program()
        lines = [
            *program.module("model", self.recipe),
            f"batches = {list(self.batches)!r}",
            f"assert_faithful(model, batches, {program.code(self.cfg)})",
        ]
        return program.failure(problem, lines)


@st.composite
def _examples(
    draw: st.DrawFn,
    models: st.SearchStrategy[ModuleRecipe],
    cfg: Cfg | Callable[[nn.Module], st.SearchStrategy[Cfg]],
) -> Example:
    recipe = draw(models)
    sizes = draw(st.lists(st.integers(2, 5), min_size=2, max_size=3, unique=True))
    batches = tuple(recipe.input(n, seed=i) for i, n in enumerate(sizes))
    chosen = cfg if isinstance(cfg, Mapping) else draw(cfg(recipe.make()))
    return Example(recipe, batches, chosen)


def _check(example: Example) -> None:
    batches = [recipe.make() for recipe in example.batches]
    problem = difference(example.recipe.make(), batches, example.cfg)
    if problem:
        raise example.failure(f"an instrumented model is not faithful: {problem}")


def assert_faithful(model: nn.Module, batches: Sequence[Any], cfg: Cfg = EVERY_LEAF) -> None:
    """Fails where an instrumented model is not bit-equal to a plain one.

    Both train for one step on each batch and are evaluated on the first. Compared are outputs,
    losses, the gradients of parameters and inputs, parameters, buffers, and the random state: the
    numbers, and the strides of what holds them.

    Args:
        model: The model; copies are used, and it stays as it was.
        batches: Its inputs, of two sizes or more: each a tensor, or a tuple of arguments.
        cfg: The configuration.

    Raises:
        AssertionError: Something differs; says what.
    """
    problem = difference(model, batches, cfg)
    if problem:
        raise AssertionError(problem)


def difference(model: nn.Module, batches: Sequence[Any], cfg: Cfg) -> str | None:
    """The first difference between an instrumented model and a plain one; None if there is none."""
    plain = copy.deepcopy(model)
    state = random_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
            probed = taiyi_fx.instrument(copy.deepcopy(model), cfg)
            if list(probed.state_dict()) != list(plain.state_dict()):
                return "the keys of the state_dict differ"
            expected, found = (list(trained(m, batches)) for m in (plain, probed))
    finally:
        restore_random_state(state)
    for (what, a), (_, b) in zip(expected, found, strict=True):
        if how := _apart(a, b):
            return f"{what} differs: {how}"
    return None


def trained(model: nn.Module, batches: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """All that a step on each batch and an evaluation of the first leave behind, by name."""
    torch.manual_seed(0)
    for step, batch in enumerate(batches):
        model.zero_grad()
        arguments = pytree.tree_map_only(Tensor, _leaf, batch)
        output = model(*_given(arguments))
        loss = total(output)
        if loss.requires_grad:
            loss.backward()
        if isinstance(model, taiyi_fx.InstrumentedModule):
            model.monitor.track(step)
        at = f"at step {step}"
        yield f"the loss {at}", loss.detach().clone()
        for i, tensor in enumerate(_tensors(output)):
            yield f"output {i} {at}", tensor.detach().clone()
        for i, tensor in enumerate(_tensors(arguments)):
            yield f"the gradient of input {i} {at}", _copied(tensor.grad)
        for name, parameter in model.named_parameters():
            yield f"the gradient of {name} {at}", _copied(parameter.grad)
        _descend(model)
    model.eval()
    for i, tensor in enumerate(_tensors(model(*_given(batches[0])))):
        yield f"output {i} in evaluation", tensor.detach().clone()
    model.train()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        yield name, tensor.detach().clone()
    yield "the random state", torch.get_rng_state()
    if torch.cuda.is_initialized():
        yield "the random state of the GPU", torch.cuda.get_rng_state()


def _leaf(x: Tensor) -> Tensor:
    x = x.detach().clone()
    return x.requires_grad_() if x.is_floating_point() else x


def _given(batch: Any) -> tuple[Any, ...]:
    # Not the leaves themselves, which nothing may change in place.
    arguments = batch if isinstance(batch, tuple) else (batch,)
    return tuple(pytree.tree_map_only(Tensor, torch.clone, arguments))


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def total(output: Any) -> Tensor:
    """A loss of any output: the mean squares of its floating-point tensors, added."""
    floating = [t for t in _tensors(output) if t.is_floating_point()]
    return functools.reduce(torch.add, [t.square().mean() for t in floating])


def _copied(gradient: Tensor | None) -> Tensor | None:
    return None if gradient is None else gradient.detach().clone()


@torch.no_grad()
def _descend(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter -= 0.01 * parameter.grad


def _apart(a: Tensor | None, b: Tensor | None) -> str:
    how = difference_of_bits(a, b)
    if how or a is None or b is None or a.stride() == b.stride():
        return how
    return f"of the same numbers, one has the strides {a.stride()}, one {b.stride()}"
