"""Steps of a gradient scaler that are left out."""

import pytest

from taiyi_fx.findings.facts.source.scaling import scaled_clips, scalers_never_updated
from tests.findings.facts.source.reading import found_in

LOOP = """
for x, y in batches:
    scaler.scale(f(model(x), y)).backward()
    {unscale}
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    {update}
"""


@pytest.mark.parametrize(
    ("unscale", "update", "found"),
    [
        ("scaler.unscale_(optimizer)", "scaler.update()", (0, 0)),
        ("pass", "scaler.update()", (1, 0)),
        ("scaler.unscale_(optimizer)", "pass", (0, 1)),
        ("pass", "progress.update()", (1, 1)),
    ],
)
def test_steps_that_are_left_out_are_found(unscale, update, found):
    code = LOOP.format(unscale=unscale, update=update)
    count = len(found_in(code, scaled_clips)), len(found_in(code, scalers_never_updated))
    assert count == found


def test_code_with_another_way_may_clip_there():
    code = LOOP.format(unscale="f(x).backward()", update="scaler.update()")
    assert found_in(code, scaled_clips) == []


def test_without_a_scaler_there_is_nothing_to_leave_out():
    code = "for x in y:\n    f(x).backward()\n    clip_grad_norm_(p, 1)\n    scheduler.step(3)\n"
    assert found_in(code, scaled_clips) == found_in(code, scalers_never_updated) == []
