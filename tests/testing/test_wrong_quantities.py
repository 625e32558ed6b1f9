"""Quantities that are wrong in the ways that quantities go wrong are caught, and shown."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from taiyi_fx.testing import CheckFailure, check_mergeable, check_quantity, tensors
from tests.testing import wrong

ROOT = Path(__file__).parent.parent.parent
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


def name(case):
    return getattr(case, "name", "")


@pytest.mark.parametrize(("quantity", "reference", "more"), RIGHT, ids=name)
def test_a_right_quantity_passes(quantity, reference, more):
    check_quantity(quantity, reference, **more)
    check_mergeable(quantity, **more)


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


def test_an_absolute_epsilon_is_caught_and_its_program_fails(run_program):
    reference = of_full_rank(wrong.condition)
    more = {"tensors": PLAIN, "floor": anything_else}
    check_quantity(wrong.right_condition, reference, **more)
    with pytest.raises(CheckFailure) as failure:
        check_quantity(wrong.epsilon_condition, reference, **more)
    with pytest.raises(AssertionError):
        run_program(failure.value.program)


@pytest.mark.parametrize("quantity", [wrong.mean_of_means, wrong.kept_mean], ids=name)
def test_what_does_not_merge_is_caught_and_its_program_fails(quantity, run_program):
    with pytest.raises(CheckFailure) as failure:
        check_mergeable(quantity, floor=wrong.mean_floor)
    with pytest.raises(AssertionError):
        run_program(failure.value.program)


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


def test_the_same_failure_is_found_each_time():
    programs = set()
    for _ in range(2):
        with pytest.raises(CheckFailure) as failure:
            check_quantity(wrong.half_mean, wrong.mean, floor=wrong.mean_floor)
        programs.add(failure.value.program)
    assert len(programs) == 1


def run(arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_a_program_is_complete(tmp_path):
    with pytest.raises(CheckFailure) as failure:
        check_quantity(wrong.scrambled_size, wrong.size)
    script = tmp_path / "shown.py"
    script.write_text(failure.value.program)
    ran = run([str(script)])
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("AssertionError: ")


def test_without_hypothesis_the_extra_to_install_is_named():
    code = "import sys; sys.modules['hypothesis'] = None; import taiyi_fx; import taiyi_fx.testing"
    ran = run(["-c", code])
    assert (
        "ImportError: taiyi_fx.testing needs hypothesis: pip install 'taiyi-fx[testing]'"
        in ran.stderr
    )


def test_a_quantity_without_a_module_of_the_kit_says_what_to_give():
    from taiyi_fx import buffer, quantity

    @quantity("of_a_buffer", x=buffer("nothing_has_it").norm)
    def of_a_buffer(x):
        return x

    with pytest.raises(TypeError, match="give modules=, such as"):
        check_quantity(of_a_buffer, lambda s: 0.0)
    with pytest.raises(LookupError, match="no quantity is named 'InputMeen'"):
        check_quantity("InputMeen", wrong.mean)
