"""A quantity in compiled code: the values of eager code."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable

import torch
from hypothesis import strategies as st
from torch import nn

from taiyi_fx.quantities.declare import Quantity
from taiyi_fx.testing.check_quantity import attempt, resolve
from taiyi_fx.testing.compare import Floor, disagreement
from taiyi_fx.testing.failure import run_examples
from taiyi_fx.testing.module import ModuleRecipe
from taiyi_fx.testing.program import Program, training
from taiyi_fx.testing.seen import Seen
from taiyi_fx.testing.tensor import TensorRecipe
from taiyi_fx.testing.tensor import tensors as any_tensors
from taiyi_fx.testing.trial import Forward, Trial, TrialStep, see
from taiyi_fx.testing.trials import Options, trials

_PLAIN = any_tensors(
    kinds=("full", "sparse"),
    dtypes=(torch.float32, torch.float64),
    layouts=("contiguous",),
    scales=(1.0, 1e3, 1e-3),
)


def check_compiled(
    quantity: Quantity | str,
    *,
    backend: str = "aot_eager",
    rel: float = 1e-5,
    floor: Callable[[Seen], Floor] | None = None,
    tensors: st.SearchStrategy[TensorRecipe] | None = None,
    modules: st.SearchStrategy[ModuleRecipe] | None = None,
    options: Options = None,
    max_examples: int = 5,
) -> None:
    """Checks that ``torch.compile(instrumented, fullgraph=True)`` records what eager code does.

    A step is one batch, or two of the same size: other sizes would be compiled anew.

    Args:
        quantity: The quantity, or the name of one.
        backend: The backend of torch.compile.
        rel: The relative error allowed.
        floor: Takes what was seen and returns the absolute error allowed beside it, as for
            `check_quantity`.
        tensors: Draws inputs and gradients.
        modules: Draws modules, as for `check_quantity`.
        options: Options of the quantity, or a strategy of them.
        max_examples: How many examples are tried; each is compiled.

    Raises:
        CheckFailure: An example is wrong, or does not compile as one graph. The message holds a
            program that shows it.
        LookupError: No quantity has this name.
        TypeError: No module of the kit can have the quantity, and ``modules`` is not given.
    """
    tried = resolve(quantity)
    drawn = trials(tried, _PLAIN if tensors is None else tensors, modules, options, max_steps=2)

    def test(trial: Trial) -> None:
        seen, expected = see(trial), attempt(tried, trial)
        for step, value in _compiled(tried, trial, backend).items():
            allowed = floor(seen[step]) if floor else 0.0
            problem = disagreement(value, expected[step], rel=rel, floor=allowed)
            if problem:
                problem = problem.replace("the reference", "that of eager code")
                program = Program()
                ways = {
                    "compiled": training(program, tried, trial, step, backend=backend),
                    "eager": training(program, tried, trial, step),
                }
                lines = program.two_ways(ways, tried.name, step, rel, allowed)
                raise program.failure(f"{tried.name} in compiled code: {problem}", lines)

    run_examples(test, drawn.map(_simple), max_examples)


def _simple(trial: Trial) -> Trial:
    steps = tuple(_even(step) for step in trial.steps)
    return dataclasses.replace(trial, steps=steps, overwrites=False)


def _even(step: TrialStep) -> TrialStep:
    rows = step.step.rows
    sizes = (rows // 2, rows // 2) if rows % 2 == 0 else (rows,)
    return dataclasses.replace(step, step=dataclasses.replace(step.step, sizes=sizes, aside=""))


def _compiled(quantity: Quantity, trial: Trial, backend: str) -> dict:
    def wrap(model: nn.Module) -> Forward:
        return torch.compile(model, fullgraph=True, backend=backend)

    torch.compiler.reset()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch.compile's own
            return attempt(quantity, trial, wrap=wrap)
    finally:
        torch.compiler.reset()
