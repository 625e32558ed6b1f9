"""Gradients that are cleared between the backwards of one step."""

import pytest

from taiyi_fx.findings.facts.source.clearing import cleared_between, clipped_between
from tests.findings.facts.source.reading import found_in

PARTS = """
for batch in batches:
    {before}
    for part in batch.chunk(4):
        {within}
        (f(model(part)) / 4).backward()
        {last}
    {behind}
"""
COUNTED = """
for i, batch in enumerate(batches):
    {first}
    f(model(batch)).backward()
    if (i + 1) % 4 == 0:
        {step}
"""
CLEAR, STEP = "optimizer.zero_grad()", "optimizer.step()"


@pytest.mark.parametrize(
    ("before", "within", "last", "behind", "count"),
    [
        ("pass", CLEAR, "pass", STEP, 1),
        ("pass", CLEAR, "pass", "scaler.step(optimizer)", 1),
        ("pass", CLEAR, "pass", f"if ready: {STEP}", 1),
        (CLEAR, "pass", "pass", STEP, 0),
        ("pass", CLEAR, STEP, "pass", 0),
        ("pass", "other.zero_grad()", "pass", STEP, 0),
        ("pass", f"if first: {CLEAR}", "pass", STEP, 0),
        ("pass", CLEAR, STEP, STEP, 0),
    ],
)
def test_an_inner_loop_that_clears_before_each_backward_is_found(
    before, within, last, behind, count
):
    code = PARTS.format(before=before, within=within, last=last, behind=behind)
    assert len(found_in(code, cleared_between)) == count


@pytest.mark.parametrize(
    ("first", "step", "count"),
    [
        (CLEAR, STEP, 1),
        ("pass", f"{STEP}; {CLEAR}", 0),
        (CLEAR, "log(i)", 0),
        (CLEAR, f"g(batch).backward(); {STEP}", 0),
        (f"if i % 4 == 0: {CLEAR}", STEP, 0),
    ],
)
def test_a_step_that_comes_every_few_turns_needs_the_gradients_of_all(first, step, count):
    assert len(found_in(COUNTED.format(first=first, step=step), cleared_between)) == count


def test_a_step_in_each_turn_is_one_of_its_own():
    code = COUNTED.format(first=f"{CLEAR}; {STEP}", step=STEP)
    assert found_in(code, cleared_between) == []


CLIP = "clip_grad_norm_(model.parameters(), 1.0)"


@pytest.mark.parametrize(
    ("within", "last", "behind", "count"),
    [
        ("pass", CLIP, STEP, 1),
        ("pass", f"scaler.unscale_(optimizer); nn.utils.{CLIP}", "scaler.step(optimizer)", 1),
        ("pass", "pass", f"{CLIP}; {STEP}", 0),
        ("pass", f"{CLIP}; {STEP}", "pass", 0),
        ("pass", f"if is_last: {CLIP}", STEP, 0),
        ("pass", f"{CLIP}; other.step()", STEP, 0),
        ("pass", f"{CLIP}; sums.append(p.grad.clone()); model.zero_grad()", STEP, 0),
    ],
)
def test_an_inner_loop_that_clips_after_each_backward_is_found(within, last, behind, count):
    code = PARTS.format(before=CLEAR, within=within, last=last, behind=behind)
    assert len(found_in(code, clipped_between)) == count


@pytest.mark.parametrize(
    ("clip", "step", "count"), [(CLIP, STEP, 1), ("pass", f"{CLIP}; {STEP}", 0)]
)
def test_clips_in_each_turn_of_a_step_in_every_fourth_are_found(clip, step, count):
    code = COUNTED.format(first="pass", step=step) + f"    {clip}\n"
    assert len(found_in(code, clipped_between)) == count
