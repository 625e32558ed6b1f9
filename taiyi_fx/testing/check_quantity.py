"""A quantity against a reference, end to end, on tensors that break statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from taiyi_fx.quantities.declare import Quantity, find_quantity, quantity_names
from taiyi_fx.suggestion import suggestion
from taiyi_fx.testing.compare import Floor, by_suffix, disagreement
from taiyi_fx.testing.failure import run_examples
from taiyi_fx.testing.module import ModuleRecipe
from taiyi_fx.testing.program import Program, lookup, training
from taiyi_fx.testing.seen import Seen
from taiyi_fx.testing.tensor import TensorRecipe
from taiyi_fx.testing.tensor import tensors as any_tensors
from taiyi_fx.testing.trial import Recorded, Trial, record, see
from taiyi_fx.testing.trials import Options, trials

Reference = Callable[[Seen], Any]


def check_quantity(
    quantity: Quantity | str,
    reference: Reference,
    *,
    rel: float = 1e-5,
    floor: Callable[[Seen], Floor] | None = None,
    tensors: st.SearchStrategy[TensorRecipe] | None = None,
    modules: st.SearchStrategy[ModuleRecipe] | None = None,
    options: Options = None,
    max_examples: int = 100,
) -> None:
    """Checks what the monitor records of a quantity against a reference, on drawn examples.

    Examples are models of one module that tensors of all shapes, types, layouts, scales and
    kinds are put through, in micro-batches, over several steps, with gradients where the
    quantity reads any. What went through is captured on a plain twin, without the library.

    Args:
        quantity: The quantity, or the name of one.
        reference: Takes what was `Seen` at a step and returns what is right: a number, an
            array, a dictionary of suffix to these, or None for no record. Where it is finite the
            recorded value must be within ``rel`` and ``floor`` of it; where it is NaN or
            infinite, the value must not be finite. Whole numbers (int, integer arrays) must be
            equal.
        rel: The relative error allowed.
        floor: Takes what was seen and returns the absolute error allowed beside it, where
            digits cancel: a number, an array, or a dictionary of suffix to these. Infinite where
            nothing can be said.
        tensors: Draws inputs and gradients.
        modules: Draws modules. By default modules that return twice their input, of all classes
            that can have the quantity: any tensor and any gradient can be put through. With
            real modules, ``tensors`` says what inputs are like but for their shape and type.
        options: Options of the quantity, or a strategy of them.
        max_examples: How many examples are tried.

    Raises:
        CheckFailure: An example is wrong. The message holds a program that shows it.
        LookupError: No quantity has this name.
        TypeError: No module of the kit can have the quantity, and ``modules`` is not given.
    """
    tried = resolve(quantity)
    examples = trials(tried, any_tensors() if tensors is None else tensors, modules, options)

    def test(trial: Trial) -> None:
        seen, found = see(trial), attempt(tried, trial)
        for step, value in found.items():
            expected = reference(seen[step])
            allowed = floor(seen[step]) if floor else 0.0
            problem = disagreement(value, expected, rel=rel, floor=allowed)
            if problem:
                if len(trial.steps) > 1:
                    test(trial.alone(step))  # simpler to read, if it is wrong by itself
                program = Program()
                lines = training(program, tried, trial, step)
                lines += _verdict(program, tried.name, step, (value, expected, rel, allowed))
                raise program.failure(f"{tried.name} at step {step}: {problem}", lines)

    run_examples(test, examples, max_examples)


def resolve(quantity: Quantity | str) -> Quantity:
    """The quantity itself, or the one with this name.

    Raises:
        LookupError: There is none.
    """
    found = find_quantity(quantity) if isinstance(quantity, str) else quantity
    if found is None:
        hint = suggestion(str(quantity), quantity_names())
        raise LookupError(f"no quantity is named {quantity!r}.{hint}")
    return found


def attempt(quantity: Quantity, trial: Trial, **how: Any) -> dict[int, Recorded]:
    """The recorded values at each step that is due.

    Raises:
        CheckFailure: The quantity raised an error.
    """
    try:
        return record(quantity, trial, **how)
    except Exception as error:  # whatever a quantity's own code may raise
        program = Program()
        lines = training(program, quantity, trial, len(trial.steps) - 1, strict=True)
        problem = f"{quantity.name} raises {type(error).__name__}: {error}"
        raise program.failure(problem, lines) from error


def _verdict(
    program: Program, name: str, step: int, compared: tuple[Any, Any, float, Floor]
) -> list[str]:
    """Lines that look up the first part of a value that is wrong, and say what is right."""
    found, expected, rel, floor = compared
    mine, its = by_suffix(found), by_suffix(expected)
    for suffix in (*its, *mine):
        allowed = floor.get(suffix, 0.0) if isinstance(floor, Mapping) else floor
        value, right = mine.get(suffix), its.get(suffix)
        if disagreement(value, right, rel=rel, floor=allowed):
            label = f"{name}.{suffix}" if suffix else name
            assertion = program.agreement("found", right, rel, allowed)
            return ["", f"found = {lookup(label, step)}", assertion]
    raise AssertionError("nothing disagrees")
