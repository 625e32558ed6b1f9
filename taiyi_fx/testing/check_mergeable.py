"""A quantity over micro-batches and ranks: any split of the rows gives the same value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from hypothesis import strategies as st
from torch import Tensor

from taiyi_fx.passes.ir import CALL_PORTS, GRADIENT_PORTS, Reduction, State
from taiyi_fx.quantities.declare import Quantity
from taiyi_fx.testing.check_quantity import attempt, resolve
from taiyi_fx.testing.compare import Floor, disagreement, largest
from taiyi_fx.testing.failure import run_examples
from taiyi_fx.testing.module import ModuleRecipe
from taiyi_fx.testing.program import Program, training
from taiyi_fx.testing.seen import Seen
from taiyi_fx.testing.steps import splits
from taiyi_fx.testing.tensor import OVERWRITTEN, SHAPES, TensorRecipe, overwrite
from taiyi_fx.testing.tensor import tensors as any_tensors
from taiyi_fx.testing.trial import Trial, see
from taiyi_fx.testing.trials import Options, trials

_PLAIN = any_tensors(
    SHAPES,
    kinds=("full", "deficient", "constant", "sparse", "zero"),
    dtypes=(torch.float64,),
    scales=(1.0, 1e3, 1e-3),
)


def check_mergeable(
    quantity: Quantity | str,
    *,
    rel: float = 1e-5,
    floor: Callable[[Seen], Floor] | None = None,
    tensors: st.SearchStrategy[TensorRecipe] | None = None,
    modules: st.SearchStrategy[ModuleRecipe] | None = None,
    options: Options = None,
    any_order: bool = True,
    max_examples: int = 100,
) -> None:
    """Checks that a quantity does not depend on how its rows are split.

    First end to end: a step in micro-batches records what the same step as a whole does. Then
    each of its reductions of inputs, outputs and their gradients, as ranks merge them: states of
    parts of the rows, merged in any order and tree, finish as that of all rows does; a gradient's
    scaled state finishes as that of the scaled gradient; and a state keeps no memory of its
    tensor.

    Args:
        quantity: The quantity, or the name of one.
        rel: The relative error allowed; of reductions, relative to their largest element.
        floor: Takes what was seen of the whole and returns the absolute error allowed beside it,
            as for `check_quantity`.
        tensors: Draws inputs and gradients, for the part that is end to end.
        modules: Draws modules, as for `check_quantity`.
        options: Options of the quantity, or a strategy of them.
        any_order: True if parts may be merged in any order. False for what keeps the rows
            themselves, one behind the other: there only the tree varies.
        max_examples: How many examples are tried of each.

    Raises:
        CheckFailure: An example is wrong. The message holds a program that shows it.
        LookupError: No quantity has this name.
        TypeError: No module of the kit can have the quantity, and ``modules`` is not given; or
            a reduction's state is no tuple of tensors.
    """
    tried = resolve(quantity)
    examples = trials(tried, any_tensors() if tensors is None else tensors, modules, options)

    def test(trial: Trial) -> None:
        seen, found, expected = see(trial), attempt(tried, trial), attempt(tried, trial.whole())
        for step, value in found.items():
            allowed = floor(seen[step]) if floor else 0.0
            problem = disagreement(value, expected[step], rel=rel, floor=allowed)
            if problem:
                if len(trial.steps) > 1:
                    test(trial.alone(step))
                problem = problem.replace("the reference", "that of the whole")
                program = Program()
                ways = {
                    "in_parts": training(program, tried, trial, step),
                    "whole": training(program, tried, trial.whole(), step),
                }
                lines = program.two_ways(ways, tried.name, step, rel, allowed)
                raise program.failure(f"{tried.name} in micro-batches: {problem}", lines)

    run_examples(test, examples.filter(_is_split), max_examples)
    if not _merged(tried):
        return
    merges = _merges(tried, modules, options, any_order)
    run_examples(lambda merge: _check_merge(tried, merge, rel), merges, max_examples)


def _merged(quantity: Quantity) -> list[str]:
    """The parameters of a quantity whose reductions can be merged over parts of any tensor.

    Parameters and buffers are whole; pairs need the layer that they are of, calls all their
    arguments, and spans a call that runs.
    """
    ports = [port for port in CALL_PORTS if port not in ("pair", "call", "span", "backward")]
    return [name for name, source in quantity.sources.items() if source.port in ports]


def _is_split(trial: Trial) -> bool:
    return any(len(step.step.sizes) > 1 for step in trial.steps)


@dataclass(frozen=True)
class _Merge:
    """Parts of a tensor whose states are merged.

    Attributes:
        source: The name of the quantity's parameter.
        reduction: The reduction whose states are merged.
        x: The tensor.
        sizes: How many entries of axis 0 each part has.
        order: The order of the parts.
        tree: Which neighbours are merged next, again and again.
        factor: The factor that a state is scaled by.
        is_scaled: True if it is a gradient's, which alone are scaled.
    """

    source: str
    reduction: Reduction
    x: TensorRecipe
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    tree: tuple[int, ...]
    factor: float
    is_scaled: bool

    def merged(self, parts: list[State]) -> tuple[State, str]:
        """The merged state, and the expression that merges it."""
        left = [(parts[i], f"parts[{i}]") for i in self.order]
        for pick in self.tree:
            i = pick % (len(left) - 1)
            (a, text_a), (b, text_b) = left[i : i + 2]
            state = self.reduction.merge(a, b)
            left[i : i + 2] = [(state, f"reduction.merge({text_a}, {text_b})")]
        return left[0]


@st.composite
def _merges(
    draw: st.DrawFn,
    quantity: Quantity,
    modules: st.SearchStrategy[ModuleRecipe] | None,
    options: Options,
    any_order: bool,
) -> _Merge:
    trial = draw(trials(quantity, _PLAIN, modules, options, max_steps=1))
    readings = quantity.readings(trial.layer.make(), trial.options)
    source = draw(st.sampled_from(sorted(_merged(quantity))))
    x = dataclasses.replace(trial.steps[0].x, dtype=torch.float64)
    if x.kind == "indices":
        x = TensorRecipe(x.shape, dtype=torch.float64, device=x.device)
    sizes = draw(splits(x.shape[0]))
    indices = tuple(range(len(sizes)))
    order = tuple(draw(st.permutations(indices))) if any_order else indices
    tree = tuple(draw(st.integers(0, 3)) for _ in indices[1:])
    factor = draw(st.sampled_from((0.5, 2.0, 1 / 1024)))
    reading = readings[source]
    is_scaled = reading.site.port in GRADIENT_PORTS
    reduction = cast(Reduction, reading.reduction)  # pairs are left out
    return _Merge(source, reduction, x, sizes, order, tree, factor, is_scaled)


@torch.no_grad()
def _check_merge(quantity: Quantity, merge: _Merge, rel: float) -> None:
    reduction, x = merge.reduction, merge.x.make()
    state = reduction.measure(x.clone())
    if not isinstance(state, tuple) or not all(isinstance(part, Tensor) for part in state):
        kind = type(reduction).__name__
        raise TypeError(f"{kind}.measure returns {state!r}; a state is a tuple of tensors")
    whole = reduction.finish(state)
    allowed = _allowed(reduction, x, whole, rel)
    what, program = f"{merge.source} of {quantity.name}", Program()
    lines = [f"reduction = {program.reduction(reduction)}", f"x = {merge.x!r}"]
    problem = _scaling_problem(merge, x, rel, allowed)
    if problem:
        problem = problem.replace("recorded", "a scaled state finishes as")
        lines += [
            f"scaled = reduction.finish(reduction.scale(reduction.measure(x), {merge.factor!r}))",
            f"expected = reduction.finish(reduction.measure(x * {merge.factor!r}))",
            program.agreement("scaled", "expected", rel, allowed),
        ]
        raise program.failure(f"{what}: {problem}", lines)
    parts = [reduction.measure(part) for part in x.split(merge.sizes)]
    overwrite(x)
    state, text = merge.merged(parts)
    problem = disagreement(reduction.finish(state), whole, rel=rel, floor=allowed)
    if problem:
        problem = problem.replace("recorded", "merged states finish as")
        lines += [
            "whole = reduction.finish(reduction.measure(x.clone()))",
            f"parts = [reduction.measure(part) for part in x.split({list(merge.sizes)})]",
            f"x.untyped_storage().fill_({OVERWRITTEN})  # a state keeps no memory of its tensor",
            f"merged = reduction.finish({text})",
            program.agreement("merged", "whole", rel, allowed),
        ]
        raise program.failure(f"{what}: {problem}", lines)


def _scaling_problem(
    merge: _Merge, x: Tensor, rel: float, allowed: Mapping[str, float]
) -> str | None:
    if not merge.is_scaled:
        return None
    reduction = merge.reduction
    scaled = reduction.finish(reduction.scale(reduction.measure(x.clone()), merge.factor))
    expected = reduction.finish(reduction.measure(x * merge.factor))
    return disagreement(scaled, expected, rel=rel, floor=allowed)


def _allowed(reduction: Reduction, x: Tensor, whole: Any, rel: float) -> Mapping[str, float]:
    """The error that rounding may leave, relative to the result for ordinary values."""
    generator = torch.Generator().manual_seed(0)
    ordinary = torch.rand(x.shape, generator=generator, dtype=x.dtype) * x.abs().max()
    sizes, natural = largest(whole), largest(reduction.finish(reduction.measure(ordinary)))
    return {name: rel * max(size, natural.get(name, 0.0)) for name, size in sizes.items()}
