"""Differences between two runs, in words."""

from taiyi_fx.verification.differing import found_in

NAMES = ["the first step", "evaluation"]


def test_differences_come_in_the_order_of_the_run_with_their_phase():
    expected = [{"output": 1, "buffer 'b'": 2}, {"output": 3}]
    found = found_in(expected, iter([{"output": 1, "buffer 'b'": 0}, {"output": 4}]), NAMES)
    assert [str(d) for d in found] == [
        "buffer 'b' after the first step: 2 became 0",
        "output in evaluation: 3 became 4",
    ]


def test_an_error_of_the_other_run_ends_the_comparison():
    def other():
        yield {"output": 1}
        raise RuntimeError("not here")

    (found,) = found_in([{"output": 1}, {"output": 1}], other(), NAMES, " where nothing is due")
    assert found.has_raised
    assert str(found) == (
        "the model in evaluation where nothing is due: raised RuntimeError: not here"
    )


def test_positions_sort_by_phase_and_place():
    expected = [{"a": 1, "b": 1}, {"a": 1}]
    found = list(found_in(expected, iter([{"a": 1, "b": 0, "new": 1}, {"a": 0}]), NAMES))
    assert [d.position for d in found] == [(0, 1), (0, 2), (1, 0)]
