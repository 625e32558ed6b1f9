"""Definitions cut out of their files, with all that they need."""

import pytest

from taiyi_fx.testing import CheckFailure, check_quantity, tensors


def test_a_quantity_declared_in_a_function_is_shown_whole(run_program):
    from taiyi_fx import output as there
    from taiyi_fx import quantity

    factor = 3.0

    def tripled(norm):
        return norm * factor

    @quantity("tripled_norm", norm=there.norm)
    def tripled_norm(norm):
        return tripled(norm)

    plain = tensors(kinds=("full",), scales=(1.0,))
    with pytest.raises(CheckFailure) as failure:
        check_quantity(tripled_norm, lambda s: 2 * s.y.norm(), tensors=plain)
    program = failure.value.program
    assert "factor = 3.0" in program
    assert "output as there" in program
    with pytest.raises(AssertionError):
        run_program(program)
