"""A coordinate check: the standard parametrization grows with the width, the maximal one is flat."""

import random

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.coordinates.check import role_of
from tests.coordinates import models

WIDTHS = (32, 64, 128, 256)
ROLES = ("first", "hidden.0", "hidden.2", "last")


@pytest.fixture(scope="module")
def checks():
    return {
        make.__name__: taiyi_fx.coordinate_check(make, models.batch(), widths=WIDTHS)
        for make in (models.standard, models.maximal, models.fading)
    }


def test_the_standard_parametrization_grows(checks):
    found = checks["standard"]
    assert found.verdict == "grows"
    assert found.change_slopes["last"] > 0.5
    assert found.change_slopes["hidden.2"] > 0.3
    assert found.steepest == "last"
    assert str(found).startswith("verdict: grows")


def test_the_maximal_update_parametrization_is_flat(checks):
    found = checks["maximal"]
    assert found.verdict == "flat"
    assert max(map(abs, found.change_slopes.values())) < 0.3
    assert str(found).startswith("verdict: flat")


DEFINITIONS = {"l1": lambda x: x.abs().mean(), "l2": lambda x: (x**2).mean() ** 0.5}
"""Of mup 1.0, `coord_check.FDICT`."""


def published_check(make, width):
    """The published check of one model: by hooks, sizes of each layer's output at each step."""
    torch.manual_seed(0)
    model, optimizer = make(width)
    found = {(role, name): [] for role in ROLES for name in DEFINITIONS}

    def record(role, y):
        for name, definition in DEFINITIONS.items():
            found[role, name].append(definition(y.detach()).item())

    for role in ROLES:
        model.get_submodule(role).register_forward_hook(lambda m, args, y, of=role: record(of, y))
    aim = torch.randn(64, models.OUTPUTS, generator=torch.Generator().manual_seed(0))
    for _ in range(4):
        nn.functional.mse_loss(model(models.batch()), aim).backward()
        optimizer.step()
        optimizer.zero_grad()
    return found


@pytest.mark.parametrize(
    ("make", "verdict"), [(models.standard, "grows"), (models.published, "flat")]
)
def test_sizes_and_slopes_are_those_of_the_published_check(make, verdict):
    coordinates = [published_check(make, width) for width in WIDTHS]
    found = taiyi_fx.coordinate_check(make, models.batch(), widths=WIDTHS, steps=3, seeds=1)
    assert found.verdict == verdict
    for role in ROLES:
        for sizes, of in zip(found.sizes[role], coordinates, strict=True):
            assert sizes == pytest.approx(of[role, "l2"], rel=1e-5)
        # The published check draws the mean of absolute values: another size, the same slope.
        means = [of[role, "l1"][-1] for of in coordinates]
        slope = np.polyfit(np.log(WIDTHS), np.log(means), 1)[0]
        assert found.slopes[role] == pytest.approx(slope, abs=0.1)


def test_what_hardly_learns_fades(checks):
    found = checks["fading"]
    assert found.verdict == "fades"
    assert found.change_slopes[found.steepest] < -1


def test_sizes_are_those_of_a_plain_training():
    """Once more by hand: hooks, one seed, all steps."""
    found = taiyi_fx.coordinate_check(
        models.standard, models.batch(), widths=(32, 64), steps=3, seeds=1
    )
    for i, width in enumerate((32, 64)):
        torch.manual_seed(0)
        model, optimizer = models.standard(width)
        outputs = []
        model.hidden[2].register_forward_hook(lambda m, args, y, to=outputs: to.append(y.detach()))
        aim = torch.randn(64, models.OUTPUTS, generator=torch.Generator().manual_seed(0))
        for _ in range(4):
            nn.functional.mse_loss(model(models.batch()), aim).backward()
            optimizer.step()
            optimizer.zero_grad()
        sizes = [y.double().square().mean().sqrt().item() for y in outputs]
        changes = [(y - outputs[0]).double().square().mean().sqrt().item() for y in outputs]
        assert found.sizes["hidden.2"][i] == pytest.approx(sizes, rel=1e-5)
        assert found.changes["hidden.2"][i] == pytest.approx(changes, rel=1e-5)


def test_slopes_are_those_of_straight_lines():
    widths = np.array([8.0, 16.0, 32.0])
    sizes = {"a": (widths**0.5)[:, None], "b": (3 / widths)[:, None]}
    found = taiyi_fx.CoordinateCheck((8, 16, 32), 0, 1, sizes, sizes)
    assert found.slopes == pytest.approx({"a": 0.5, "b": -1.0})


def test_the_callers_random_numbers_stay():
    torch.manual_seed(3)
    before = torch.get_rng_state(), random.getstate()
    taiyi_fx.coordinate_check(models.standard, models.batch(), widths=(8, 16), steps=1, seeds=1)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def test_numbers_of_blocks_are_left_open():
    assert role_of("blocks.3.mlp.up") == "blocks.*.mlp.up"
    assert role_of("hidden.2") == "hidden.2"


@pytest.mark.parametrize("given", [{"widths": (8,)}, {"steps": 0}, {"seeds": 0}])
def test_what_gives_no_slope_is_refused(given):
    with pytest.raises(ValueError, match="a slope takes two widths, one step and one seed"):
        taiyi_fx.coordinate_check(models.standard, models.batch(), **given)


def test_what_makes_no_model_is_refused():
    with pytest.raises(TypeError, match=r"make takes a width to a torch\.nn\.Module"):
        taiyi_fx.coordinate_check(lambda width: width, models.batch())
