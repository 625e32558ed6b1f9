"""Programs of failures: complete, and a few lines."""

import pytest

from taiyi_fx.testing import CheckFailure, check_quantity
from tests.testing import wrong
from tests.testing.processes import run


def test_an_error_of_a_quantitys_own_is_shown(run_program):
    from taiyi_fx import output, quantity

    @quantity("divided_norm", norm=output.norm)
    def divided_norm(norm):
        return norm / 0 if norm.ndim else missing_name  # noqa: F821

    with pytest.raises(CheckFailure, match="divided_norm raises NameError") as failure:
        check_quantity(divided_norm, lambda s: s.y.norm())
    with pytest.raises(NameError):
        run_program(failure.value.program)


def test_the_smallest_example_is_a_few_lines_of_numbers():
    with pytest.raises(CheckFailure) as failure:
        check_quantity(wrong.invented_mean, wrong.mean, floor=wrong.mean_floor)
    body = failure.value.program.partition("layer = ")[2].splitlines()
    assert len(body) == 8
    assert body[2].startswith("x = torch.tensor([[")


def test_a_program_is_complete(tmp_path):
    with pytest.raises(CheckFailure) as failure:
        check_quantity(wrong.scrambled_size, wrong.size)
    script = tmp_path / "shown.py"
    script.write_text(failure.value.program)
    ran = run([str(script)])
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("AssertionError: ")
