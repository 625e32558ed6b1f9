"""Trials: what a reference sees, and what the monitor records."""

import pytest
import torch

from taiyi_fx.quantities.declare import find_quantity
from taiyi_fx.testing import LinearLike, ModuleRecipe, Step, TensorRecipe
from taiyi_fx.testing.trial import Trial, TrialStep, record, see

LAYER = ModuleRecipe(LinearLike, shape=(2,))


def trial(*steps, overwrites=True):
    put = [
        TrialStep(s, TensorRecipe((s.rows, 2), seed=i), TensorRecipe((s.rows, 2), seed=9 + i))
        for i, s in enumerate(steps)
    ]
    return Trial(LAYER, tuple(put), overwrites=overwrites)


def test_a_reference_sees_all_rows_and_the_gradient_of_the_true_loss():
    made = trial(Step((1, 2), grad_scale=2.0, aside="no_grad"))
    seen = see(made)[0]
    x, g = (recipe.make().double() for recipe in (made.steps[0].x, made.steps[0].g))
    assert torch.equal(seen.x, x)
    assert torch.equal(seen.y, 2 * x)
    assert torch.equal(seen.g_y, g)
    assert torch.equal(seen.g_x, 2 * g)


def test_steps_before_and_since_are_seen_where_the_quantity_is_due():
    made = trial(Step((1,)), Step((2,), is_due=False), Step((3,)))
    seen = see(made)
    assert list(seen) == [0, 2]
    assert seen[2].before is seen[0]
    assert [len(step.x) for step in seen[2].window] == [2, 3]
    assert made.schedule == "at_steps(0, 2)"


@pytest.mark.parametrize("is_whole", [False, True])
def test_the_monitor_records_what_the_reference_sees(is_whole):
    made = trial(Step((1, 2), aside="eval"), Step((2, 2), grad_scale=0.5))
    made = made.whole() if is_whole else made
    found, seen = record(find_quantity("OutputGradSndNorm"), made), see(made)
    for step in (0, 1):
        assert float(found[step][""]) == pytest.approx(float(seen[step].g_y.norm()), rel=1e-6)


def test_one_step_alone_is_due():
    alone = trial(Step((1,)), Step((2,), is_due=False), Step((3,))).alone(1)
    assert alone.due == (0,)
    assert alone.steps[0].step.rows == 2
