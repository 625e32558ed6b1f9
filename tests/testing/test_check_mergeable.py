"""Statistics that do not merge are caught, and their programs fail."""

import pytest

from taiyi_fx.testing import CheckFailure, check_mergeable
from tests.testing import wrong
from tests.testing.processes import name


@pytest.mark.parametrize(
    "quantity",
    [pytest.param(wrong.mean_of_means, marks=pytest.mark.slow), wrong.kept_mean],
    ids=name,
)
def test_what_does_not_merge_is_caught_and_its_program_fails(quantity, run_program):
    with pytest.raises(CheckFailure) as failure:
        check_mergeable(quantity, floor=wrong.mean_floor)
    with pytest.raises(AssertionError):
        run_program(failure.value.program)
