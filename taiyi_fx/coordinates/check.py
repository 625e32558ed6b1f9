"""Models of several widths, trained side by side for a few steps."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from taiyi_fx.coordinates.result import CoordinateCheck
from taiyi_fx.coordinates.training import Given, Made, Sizes, trained


def coordinate_check(
    make: Callable[[int], Made],
    *args: Any,
    widths: Sequence[int] = (64, 128, 256, 512),
    steps: int = 4,
    seeds: int = 2,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
    loss: Callable[[Any], Tensor] | None = None,
    **kwargs: Any,
) -> CoordinateCheck:
    """How the size of each module's output, and its change, grow with the width of a model.

    Models of all widths are trained on one batch for a few steps, at one learning rate. In the
    maximal update parametrization neither grows nor fades: what is tuned on a narrow model holds
    for a wide one. In the standard one what each step changes grows with the width (arXiv
    2203.03466). Take a rate at which the narrow model trains well: at one that is too large,
    activations saturate, and nothing grows any more. All random numbers are drawn from seeds;
    those of the caller stay as they are.

    Args:
        make: Takes a width to a model, or to a model and its optimizer, as parametrizations need
            that have learning rates for each group.
        *args: The batch, as the model's forward takes it: by position.
        widths: At least two of them.
        steps: The number of updates.
        seeds: The number of initialisations, whose logarithms are averaged.
        optimizer: Takes a model to its optimizer; by default Adam at a rate of 0.001.
        loss: Takes what a forward returns to the loss. By default the output's ``loss`` where it
            has one, else the mean squared distance of its first tensor to random numbers.
        **kwargs: The same batch by name.

    Raises:
        ValueError: There are fewer than two widths, or no steps or seeds, or the models have no
            modules in common.
        TypeError: ``make`` returns something else.
    """
    widths = sorted(dict.fromkeys(widths))
    if len(widths) < 2 or steps < 1 or seeds < 1:
        raise ValueError(
            f"a slope takes two widths, one step and one seed at least, not widths {widths}, "
            f"{steps} steps and {seeds} seeds"
        )
    given = Given(make, args, kwargs, optimizer or _adam, loss, steps)
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what few steps of a wild training may tell
        runs = [[_sizes(given, width, seed) for seed in range(seeds)] for width in widths]
    sizes, changes = (_by_role(runs, which) for which in ("sizes", "changes"))
    if not sizes:
        raise ValueError("the models have no module of one name in common whose output is a tensor")
    return CoordinateCheck(tuple(widths), steps, seeds, sizes, changes)


def _adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def _sizes(given: Given, width: int, seed: int) -> dict[str, Sizes]:
    torch.manual_seed(seed)
    made = given.make(width)
    model, optimizer = made if isinstance(made, tuple) else (made, None)
    if not isinstance(model, nn.Module):
        raise TypeError(
            "make takes a width to a torch.nn.Module, or to one and its optimizer, but returned "
            f"a {type(model).__name__}"
        )
    optimizer = given.optimizer(model) if optimizer is None else optimizer
    return trained(model, optimizer, given, seed)


def _by_role(
    runs: Sequence[Sequence[dict[str, Sizes]]], which: str
) -> dict[str, np.ndarray[Any, Any]]:
    """Geometric means over seeds and the modules of a role: widths by steps."""
    common = [name for name in runs[0][0] if all(name in sizes for of in runs for sizes in of)]
    roles: dict[str, list[str]] = {}
    for name in common:
        roles.setdefault(role_of(name), []).append(name)
    with np.errstate(all="ignore"):
        return {
            role: np.exp(
                [
                    [*np.mean([np.log(getattr(s[n], which)) for s in of for n in names], 0)]
                    for of in runs
                ]
            )
            for role, names in roles.items()
        }


def role_of(name: str) -> str:
    """A module's name with the numbers of its blocks left open; its own number stays."""
    *blocks, own = name.split(".")
    return ".".join([*(re.sub(r"^\d+$", "*", part) for part in blocks), own])
