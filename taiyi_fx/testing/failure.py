"""Running examples, and what a check raises for the smallest one that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

_Example = TypeVar("_Example")


class CheckFailure(AssertionError):
    """A check found an example that is wrong.

    Attributes:
        problem: What is wrong, in words.
        program: A complete Python program that shows it.
    """

    def __init__(self, problem: str, program: str) -> None:
        super().__init__(
            f"{problem}\n\nThis program shows it:\n\n"
            f"# ---- cut here ----\n{program}# ---- cut here ----"
        )
        self.problem = problem
        self.program = program


def run_examples(
    test: Callable[[_Example], None], examples: st.SearchStrategy[_Example], max_examples: int
) -> None:
    """Tries a test on drawn examples; the failure that is raised is that of the smallest.

    Everything but the number of examples is as in the hypothesis profile in use.
    """

    @settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
            HealthCheck.large_base_example,
        ],
    )
    @given(examples)
    def every(example: _Example) -> None:
        test(example)

    every()
