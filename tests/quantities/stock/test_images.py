"""Feature maps and kernels as pictures: what the checks of every quantity don't reach."""

import pytest
import torch
from torch import nn

import taiyi_fx

ALWAYS = "every(1)"


def recorded(model, entry, *batches, key="0"):
    model = taiyi_fx.instrument(model, {key: [entry]}, strict=True)
    for batch in batches:
        model(batch)
    model.monitor.track(0)
    return model.monitor.get_output()[key][entry if isinstance(entry, str) else entry[0]][0]


def test_a_picture_of_feature_maps_has_a_row_for_each_sample_and_a_column_a_channel():
    x = torch.randn(6, 3, 5, 7)
    conv = nn.Conv2d(3, 20, 3)
    found = recorded(nn.Sequential(conv), "FeatureMap", x)
    assert found.shape == (4 * (3 + 1) - 1, 16 * (5 + 1) - 1)
    assert found.dtype == torch.float32
    tile, shown = conv(x)[1, 2], found[4:7, 12:17]
    torch.testing.assert_close(shown, (tile - tile.min()) / (tile.max() - tile.min()))
    assert (found[3] == 1).all()
    assert (found[:, 5] == 1).all()


def test_micro_batches_fill_the_rows_one_after_the_other():
    x = torch.randn(4, 3, 5, 5)
    conv = nn.Conv2d(3, 2, 3)
    parts = recorded(nn.Sequential(conv), "FeatureMap", x[:1], x[1:3], x[3:])
    torch.testing.assert_close(parts, recorded(nn.Sequential(conv), "FeatureMap", x))


def test_an_image_without_a_batch_axis_is_one_sample():
    found = recorded(nn.Sequential(nn.Conv2d(3, 2, 3)), "FeatureMap", torch.randn(3, 5, 5))
    assert found.shape == (3, 2 * (3 + 1) - 1)


def test_kernels_stand_by_input_and_output():
    conv = nn.Conv2d(3, 5, 2)
    found = recorded(
        nn.Sequential(conv), ["WeightImage", ALWAYS, {"outputs": 4}], torch.ones(1, 3, 4, 4)
    )
    assert found.shape == (3 * 3 - 1, 4 * 3 - 1)
    kernel = conv.weight.detach()[1, 2]
    shown = found[6:8, 3:5]
    torch.testing.assert_close(shown, (kernel - kernel.min()) / (kernel.max() - kernel.min()))


def test_a_tile_that_is_constant_is_black_and_nan_stays():
    x = torch.zeros(1, 2, 2, 2)
    x[0, 1, 0] = torch.tensor([torch.nan, torch.inf])
    x[0, 1, 1] = torch.tensor([3.0, 5.0])
    found = recorded(nn.Sequential(nn.ReLU()), "FeatureMap", x)
    expected = torch.tensor([[0, 0, 1, torch.nan, torch.nan], [0, 0, 1, 0, 1]])
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("option", ["samples", "channels"])
def test_a_picture_of_nothing_is_refused(option):
    with pytest.raises(taiyi_fx.ConfigError, match=f"{option} must be a positive whole number"):
        taiyi_fx.instrument(nn.Sequential(nn.ReLU()), {"0": [["FeatureMap", ALWAYS, {option: 0}]]})


def test_no_kernels_no_picture():
    with pytest.raises(
        taiyi_fx.ConfigError, match=r"weight of the shape \(2, 3\).*not a stack of 2-D"
    ):
        taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 2)), {"0": ["WeightImage"]})
    option = {"param": "bias"}
    with pytest.raises(ValueError, match=r"takes 2-D kernels, not a shape of \(2,\)"):
        recorded(
            nn.Sequential(nn.Conv2d(1, 2, 1)),
            ["WeightImage", ALWAYS, option],
            torch.ones(1, 1, 1, 1),
        )


def test_what_are_no_maps_is_told():
    with pytest.raises(ValueError, match=r"axes N, C, H and W, but the shape is \(2, 3\)"):
        recorded(nn.Sequential(nn.ReLU()), "FeatureMap", torch.ones(2, 3))
    with pytest.raises(
        ValueError, match=r"sizes \(1, 2, 2\) and \(1, 3, 3\) do not fit in one picture"
    ):
        recorded(
            nn.Sequential(nn.ReLU()), "FeatureMap", torch.ones(1, 1, 2, 2), torch.ones(1, 1, 3, 3)
        )
