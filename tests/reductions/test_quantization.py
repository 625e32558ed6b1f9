"""The noise of a format: of each tensor by itself, and of several together."""

import pytest
import torch

from taiyi_fx.reductions import NoiseOfFormat
from taiyi_fx.reductions.number_formats import NUMBER_FORMATS, in_format


@pytest.mark.parametrize("name", NUMBER_FORMATS)
def test_tensors_are_rounded_by_themselves_and_their_noise_adds_up(name):
    made = NoiseOfFormat(format=name)
    x, y = torch.randn(4, 48), 100 * torch.randn(3, 48)
    found = made.finish(made.merge(made.measure(x), made.measure(y)))
    both = torch.cat([x, y]).double()
    noise = torch.cat([in_format(x, name), in_format(y, name)]).double() - both
    torch.testing.assert_close(found.signal, both.norm(dim=0))
    torch.testing.assert_close(found.noise, noise.norm(dim=0), rtol=1e-5, atol=1e-12)
    scaled = made.scale((found.signal, found.noise), -2.0)
    torch.testing.assert_close(scaled[1], 2 * found.noise)


def test_half_precision_and_complex_numbers_are_taken_as_they_are():
    made = NoiseOfFormat(format="mxfp4")
    x = torch.randn(4, 32)
    half = x.bfloat16()
    assert torch.equal(made.measure(half)[1], made.measure(half.float())[1])
    z = torch.complex(x, x.flip(0))
    assert made.measure(z)[0].norm().item() == pytest.approx(z.abs().norm().item(), rel=1e-6)


def test_features_are_those_of_the_axis():
    made = NoiseOfFormat(format="mxfp4", feature_axis=1)
    signal, noise = made.measure(torch.randn(4, 3, 5, 32))
    assert signal.shape == noise.shape == (3,)
    assert made.measure(torch.tensor(3.0))[0].tolist() == [3.0]


def test_a_format_that_is_none_is_refused():
    with pytest.raises(ValueError, match="format is one of float16, .*, not 'fp8'"):
        NoiseOfFormat(format="fp8")  # pyright: ignore[reportArgumentType]
