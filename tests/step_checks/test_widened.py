"""Code that asks for a smaller type and is given float64."""

import torch
import torch.nn.functional as F

from taiyi_fx.step_checks.widened import widened


def test_what_is_converted_stays_in_float64():
    x = torch.rand(3, dtype=torch.float64)
    with widened():
        made = [
            x.float(),
            x.half(),
            x.to(torch.bfloat16),
            x.to(dtype=torch.float32),
            x.type(torch.float32),
            x.sum(dtype=torch.float32),
            F.softmax(x, dim=0, dtype=torch.float32),
            torch.zeros(3),
            torch.rand(3, dtype=torch.float16),
        ]
        assert x.to(torch.int64).dtype == torch.int64
    assert {y.dtype for y in made} == {torch.float64}
    assert torch.equal(made[0], x)


def test_random_numbers_are_those_of_float32():
    like = torch.zeros(5, dtype=torch.float64)
    draws = (
        lambda x: torch.rand(5),
        lambda x: torch.randn(2, 3, dtype=torch.float32),
        torch.randn_like,
        lambda x: torch.rand_like(x, dtype=None),
    )
    for draw in draws:
        torch.manual_seed(0)
        expected, state = draw(like.float()), torch.get_rng_state()
        torch.manual_seed(0)
        with widened():
            found = draw(like)
        assert found.dtype == torch.float64
        assert torch.equal(found, expected.double())
        assert torch.equal(torch.get_rng_state(), state)


def test_complex_random_numbers_stay_complex():
    like = torch.zeros(5, dtype=torch.complex128)
    with widened():
        assert torch.randn_like(like).dtype == torch.complex128
        assert torch.randn(5, dtype=torch.complex64).dtype == torch.complex64


def test_the_default_is_as_before():
    before = torch.get_default_dtype()
    with widened():
        pass
    assert torch.get_default_dtype() == before
    assert torch.ones(1, dtype=torch.float64).float().dtype == torch.float32
