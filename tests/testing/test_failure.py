"""Failures are found again, and a missing hypothesis names the extra."""

import pytest

from taiyi_fx.testing import CheckFailure, check_quantity
from tests.testing import wrong
from tests.testing.processes import run


def test_the_same_failure_is_found_each_time():
    programs = set()
    for _ in range(2):
        with pytest.raises(CheckFailure) as failure:
            check_quantity(wrong.half_mean, wrong.mean, floor=wrong.mean_floor)
        programs.add(failure.value.program)
    assert len(programs) == 1


def test_without_hypothesis_the_extra_to_install_is_named():
    code = "import sys; sys.modules['hypothesis'] = None; import taiyi_fx; import taiyi_fx.testing"
    ran = run(["-c", code])
    assert (
        "ImportError: taiyi_fx.testing needs hypothesis: pip install 'taiyi-fx[testing]'"
        in ran.stderr
    )
