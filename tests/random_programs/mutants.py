"""Watches that are wrong on purpose, for the test of the test: each has to be caught."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from tests.random_programs.sides import tensors
from tests.random_programs.watch import Cfg, Watch, Watched

Forward = Callable[..., Any]


def runs_it_once_more(model: nn.Module, cfg: Cfg) -> Watched:
    with suppress(Exception), torch.random.fork_rng():
        model(torch.zeros(2, 4))
    return Watched(model, _nothing)


def draws_at_instrument(model: nn.Module, cfg: Cfg) -> Watched:
    random.random()
    return Watched(model, _nothing)


def counts_its_calls(model: nn.Module, cfg: Cfg) -> Watched:
    def track(step: int) -> None:
        model.tracked = step  # pyright: ignore[reportAttributeAccessIssue]

    return Watched(model, track)


def parts_a_list(model: nn.Module, cfg: Cfg) -> Watched:
    for part in model.modules():
        for name, value in vars(part).items():
            if type(value) is list:
                setattr(part, name, list(value))
    return Watched(model, _nothing)


def leaves_a_hook(model: nn.Module, cfg: Cfg) -> Watched:
    model.register_forward_hook(lambda m, a, y: None)
    return Watched(model, _nothing)


def clears_gradients(model: nn.Module, cfg: Cfg) -> Watched:
    def track(step: int) -> None:
        for p in list(model.parameters())[-1:]:
            p.grad = None

    return Watched(model, track)


def fails_in_track(model: nn.Module, cfg: Cfg) -> Watched:
    def track(step: int) -> None:
        if step == 2:
            raise RuntimeError("no record")

    return Watched(model, track)


def _in_place_of(around: Callable[[nn.Module, Forward], Forward]) -> Watch:
    """A watch whose model's forward is another, as taiyi_fx puts one on instances."""

    def watch(model: nn.Module, cfg: Cfg) -> Watched:
        def plain(*args: Any, **kwargs: Any) -> Any:
            return type(model).forward(model, *args, **kwargs)

        forward = around(model, plain)
        forward.__module__ = "taiyi_fx"
        model.__dict__["forward"] = forward
        return Watched(model, _nothing)

    return watch


def _reads_attributes_once(model: nn.Module, forward: Forward) -> Forward:
    first = {k: v for k, v in vars(model).items() if type(v) in (int, float, bool)}

    def run(*args: Any, **kwargs: Any) -> Any:
        now = {k: vars(model).get(k) for k in first}
        vars(model).update(first)
        try:
            return forward(*args, **kwargs)
        finally:
            vars(model).update({k: v for k, v in now.items() if vars(model)[k] == first[k]})

    return run


def _looks_up_forward_once(model: nn.Module, forward: Forward) -> Forward:
    found = type(model).forward
    return lambda *args, **kwargs: found(model, *args, **kwargs)


def _skips_draws(model: nn.Module, forward: Forward) -> Forward:
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.random.fork_rng():
            return forward(*args, **kwargs)

    return run


def _draws_once_more(model: nn.Module, forward: Forward) -> Forward:
    def run(*args: Any, **kwargs: Any) -> Any:
        torch.rand(1)
        return forward(*args, **kwargs)

    return run


def _loses_the_sign_of_zero(model: nn.Module, forward: Forward) -> Forward:
    def run(*args: Any, **kwargs: Any) -> Any:
        y = forward(*args, **kwargs)
        return y + 0.0 if isinstance(y, Tensor) else y

    return run


def _makes_outputs_contiguous(model: nn.Module, forward: Forward) -> Forward:
    def run(*args: Any, **kwargs: Any) -> Any:
        y = forward(*args, **kwargs)
        return y.contiguous() if isinstance(y, Tensor) else y

    return run


def _turns_gradients(model: nn.Module, forward: Forward) -> Forward:
    def run(*args: Any, **kwargs: Any) -> Any:
        y = forward(*args, **kwargs)
        for t in tensors(y):
            if t.requires_grad and not t.is_leaf:
                t.register_hook(lambda g: g * (1 + 1e-6))
        return y

    return run


def _tells_another_error(model: nn.Module, forward: Forward) -> Forward:
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return forward(*args, **kwargs)
        except ValueError as error:
            raise ValueError(f"in forward: {error}") from error

    return run


def _leaves_gradients_on(model: nn.Module, forward: Forward) -> Forward:
    return torch.enable_grad()(forward)


def _nothing(step: int) -> None:
    pass


MUTANTS: dict[str, Watch] = {
    f.__name__.strip("_"): f
    for f in (
        runs_it_once_more,
        draws_at_instrument,
        counts_its_calls,
        parts_a_list,
        leaves_a_hook,
        clears_gradients,
        fails_in_track,
    )
} | {
    f.__name__.strip("_"): _in_place_of(f)
    for f in (
        _reads_attributes_once,
        _looks_up_forward_once,
        _skips_draws,
        _draws_once_more,
        _loses_the_sign_of_zero,
        _makes_outputs_contiguous,
        _turns_gradients,
        _tells_another_error,
        _leaves_gradients_on,
    )
}
