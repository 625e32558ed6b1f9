"""Schedules that wait for a plateau, and what they are stepped by."""

import pytest

from taiyi_fx.findings.facts.source.plateaus import turned_plateaus
from tests.findings.facts.source.reading import found_in

MAX, MIN = ', mode="max"', ', mode="min"'


@pytest.mark.parametrize(
    ("mode", "given", "is_found"),
    [
        (MAX, "val_loss", True),
        (', "max"', "losses.mean()", True),
        (MAX, "metrics=metrics['val/loss']", True),
        (MIN, "val_acc", True),
        ("", "accuracy", True),
        ("", "scores['mAP']", True),
        (MIN, "val_loss", False),
        ("", "val_loss", False),
        (MAX, "val_acc", False),
        (MAX, "-val_loss", False),
        (MAX, "1 - error", False),
        (MAX, "score", False),
        ("", "max(map(float, found))", False),
        ("", "dice", False),
        (MAX, "accuracy_of_loss", False),
        (", mode=args.mode", "val_loss", False),
        (", **options", "val_loss", False),
    ],
)
def test_a_step_by_what_gets_better_the_other_way_is_found(mode, given, is_found):
    code = f"scheduler = lr_scheduler.ReduceLROnPlateau(optimizer{mode})\nscheduler.step({given})"
    assert bool(found_in(code, turned_plateaus)) == is_found


def test_steps_of_other_things_are_none():
    code = f"plateau = ReduceLROnPlateau(optimizer{MAX})\nother.step(val_loss)\nplateau.step()"
    assert found_in(code, turned_plateaus) == []


def test_a_name_of_two_modes_is_none():
    made = f"s = ReduceLROnPlateau(o{MAX}) if a else None\n"
    twice = f"s = ReduceLROnPlateau(o{MAX})\ns = ReduceLROnPlateau(o)\ns.step(val_loss)"
    assert found_in(made + twice, turned_plateaus) == []
