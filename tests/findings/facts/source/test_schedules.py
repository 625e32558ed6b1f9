"""Schedules that step in other turns than those that they count."""

import pytest

from taiyi_fx.findings.facts.source.schedules import misplaced_schedules
from tests.findings.facts.source.reading import found_in

LOOP = """
scheduler = {schedule}
for epoch in range(EPOCHS):
    for x, y in loader:
        loss = f(model(x), y)
        loss.backward()
        optimizer.step()
        {with_batch}
    {with_epoch}
"""
STEP = "scheduler.step()"
EPOCHS = "CosineAnnealingLR(optimizer, T_max=EPOCHS)"
STEPS = "torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=EPOCHS * len(loader))"


@pytest.mark.parametrize(
    ("schedule", "with_batch", "with_epoch", "line"),
    [
        (EPOCHS, STEP, "pass", 8),
        (EPOCHS, "pass", STEP, None),
        (STEPS, STEP, "pass", None),
        (STEPS, "pass", STEP, 9),
        ("CosineAnnealingLR(optimizer, args.epochs)", STEP, "pass", 8),
        ("CosineAnnealingLR(optimizer, num_steps)", "pass", STEP, 9),
        ("CosineAnnealingLR(optimizer, 30)", STEP, "pass", None),
        ("StepLR(optimizer, 30)", STEP, "pass", None),
        (EPOCHS, "scheduler.step(epoch + i / n)", "pass", None),
        (EPOCHS, f"if last: {STEP}", "pass", None),
    ],
)
def test_steps_in_other_turns_are_found(schedule, with_batch, with_epoch, line):
    code = LOOP.format(schedule=schedule, with_batch=with_batch, with_epoch=with_epoch)
    assert [at for at, _ in found_in(code, misplaced_schedules)] == ([line] if line else [])


def test_in_a_single_loop_each_turn_may_be_called_an_epoch():
    code = f"scheduler = {EPOCHS}\nfor epoch in range(EPOCHS):\n    f(x).backward()\n    {STEP}\n"
    assert found_in(code, misplaced_schedules) == []


def test_a_schedule_of_another_function_is_another_one():
    code = (
        f"def other():\n    scheduler = {STEPS}\n"
        "def train():\n    scheduler = StepLR(optimizer, 1)\n"
        "    for epoch in range(3):\n        for x in data:\n            f(x).backward()\n"
        f"        {STEP}\n"
    )
    assert found_in(code, misplaced_schedules) == []
    of_file = code.replace("    scheduler = StepLR(optimizer, 1)\n", "    pass\n")
    assert [line for line, _ in found_in(of_file, misplaced_schedules)] == [8]
