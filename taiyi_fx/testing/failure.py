"""Running a check on examples, and the error for the smallest one that fails."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

_Example = TypeVar("_Example")


class CheckFailure(AssertionError):
    """A check found an example that is wrong.

    Attributes:
        problem: The problem, in words.
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
    """Runs a test on drawn examples; raises the failure of the smallest one.

    Each example is a search of its own, of the simplest one and one at random: within a search
    hypothesis draws variations of what it drew before, and few of our kinds of tensors would come.
    They are the same each time where the hypothesis profile in use is derandomized.
    """
    start = 0 if settings().derandomize else random.getrandbits(32)
    for i in range(max(1, max_examples - 1)):
        _search(test, examples, hash((start, i)), is_first=i == 0)


def _search(
    test: Callable[[_Example], None],
    examples: st.SearchStrategy[_Example],
    number: int,
    *,
    is_first: bool,
) -> None:
    @seed(number)
    @settings(
        max_examples=2,
        deadline=None,
        database=None,
        derandomize=False,
        print_blob=False,
        verbosity=Verbosity.quiet,  # the failure has a program that shows the example
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=(
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
            HealthCheck.large_base_example,
        ),
    )
    @given(_salted(examples, is_first=is_first))
    def search(found: list[_Example]) -> None:
        for example in found:
            test(example)

    search()


@st.composite
def _salted(
    draw: st.DrawFn, examples: st.SearchStrategy[_Example], *, is_first: bool
) -> list[_Example]:
    """An example; none in place of the simplest, with which all searches begin, but in the first.

    What is drawn first always differs from the simplest example: that must be the salt.
    """
    salt = draw(st.integers(0, 999))
    return [draw(examples)] if salt or is_first else []
