"""Right quantities pass; wrong ones are caught, and their programs fail."""

import pytest
import torch

from taiyi_fx.testing import CheckFailure, check_mergeable, check_quantity, tensors
from tests.examples import tried
from tests.testing import wrong
from tests.testing.processes import name

PLAIN = tensors(
    kinds=("full",), dtypes=(torch.float64,), layouts=("contiguous",), scales=(1.0, 1e-3)
)


MEAN = {"floor": wrong.mean_floor}


RIGHT = [
    (wrong.right_size, wrong.size, {}),
    (wrong.right_mean, wrong.mean, MEAN),
]


CAUGHT = [
    (wrong.scrambled_size, wrong.size, {}),
    (wrong.mean_of_means, wrong.mean, MEAN),
    (wrong.kept_mean, wrong.mean, MEAN),
    (wrong.invented_mean, wrong.mean, MEAN),
    (wrong.half_mean, wrong.mean, MEAN),
]


@tried(20, of=100)
@pytest.mark.parametrize(("quantity", "reference", "more"), RIGHT, ids=name)
def test_a_right_quantity_passes(quantity, reference, more, examples):
    check_quantity(quantity, reference, **more, max_examples=examples)
    check_mergeable(quantity, **more, max_examples=examples)


@pytest.mark.parametrize(("quantity", "reference", "more"), CAUGHT, ids=name)
def test_a_wrong_quantity_is_caught_and_its_program_fails(quantity, reference, more, run_program):
    with pytest.raises(CheckFailure, match="This program shows it") as failure:
        check_quantity(quantity, reference, **more)
    with pytest.raises(AssertionError) as shown:
        run_program(failure.value.program)
    assert not isinstance(shown.value, CheckFailure)


def full_rank(seen):
    """Where a condition number has many digits."""
    rows = seen.rows("x")
    return rows.shape[0] > rows.shape[1] + 2


def of_full_rank(reference):
    return lambda seen: reference(seen) if full_rank(seen) else float("nan")


def anything_else(seen):
    return 0.0 if full_rank(seen) else float("inf")


@pytest.mark.slow
def test_an_absolute_epsilon_is_caught_and_its_program_fails(run_program):
    reference = of_full_rank(wrong.condition)
    more = {"tensors": PLAIN, "floor": anything_else}
    check_quantity(wrong.right_condition, reference, **more)
    with pytest.raises(CheckFailure) as failure:
        check_quantity(wrong.epsilon_condition, reference, **more)
    with pytest.raises(AssertionError):
        run_program(failure.value.program)


def test_a_quantity_without_a_module_of_the_kit_says_what_to_give():
    from taiyi_fx import buffer, quantity

    @quantity("of_a_buffer", x=buffer("nothing_has_it").norm)
    def of_a_buffer(x):
        return x

    with pytest.raises(TypeError, match="give modules=, such as"):
        check_quantity(of_a_buffer, lambda s: 0.0)
    with pytest.raises(LookupError, match="no quantity is named 'InputMeen'"):
        check_quantity("InputMeen", wrong.mean)
